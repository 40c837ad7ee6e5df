//! The real `beadlock-agent` on real databases.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod config;
#[cfg(test)]
mod daemon;
#[cfg(test)]
mod half_sent;
#[cfg(test)]
mod hang;
#[cfg(test)]
mod log;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod once;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod owner;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod root;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod scene;
