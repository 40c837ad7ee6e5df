//! The real `beadlock-agent` on real databases.

#![forbid(unsafe_code)]
#![allow(clippy::too_many_lines, reason = "a table of cases is one piece")]

#[cfg(test)]
mod agent;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod config;
#[cfg(test)]
mod daemon;
#[cfg(test)]
mod diagnostics;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod half_sent;
#[cfg(test)]
mod hang;
#[cfg(test)]
mod hang_later;
#[cfg(test)]
mod log;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod once;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod owner;
#[cfg(test)]
mod redirected;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod renamed;
#[cfg(test)]
mod replaced;
#[cfg(test)]
mod root;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod watching;
#[cfg(test)]
mod zombie;
