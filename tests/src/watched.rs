//! Agents that are looked at from outside.

pub mod alerts;
pub mod pages;
pub mod view;
