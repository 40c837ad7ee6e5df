//! Nodes that fail.
