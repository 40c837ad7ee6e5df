//! The fleet: claims across machines. First what needs no etcd, the deadlines of work in the programs that keep them; then the
//! programs beside a real etcd.

mod agents;
mod clock;
mod deadline;
mod hold;
mod site;
mod witness;
