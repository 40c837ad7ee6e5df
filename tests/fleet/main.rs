//! The fleet: claims across machines. First what needs no etcd: the deadlines of work, in the programs that keep them.

mod clock;
mod deadline;
