//! By the programs: machines are clones.

mod agents;
mod cycles;
mod faults;
mod random;
mod runs;
