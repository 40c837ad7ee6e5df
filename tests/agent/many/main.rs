//! Many at once: databases in one agent, clients of one lock. Each mostly waits, and so they run side by side.

mod clients;
mod databases;
