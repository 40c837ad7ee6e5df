//! What the programs say to type is pasted into a shell: it runs the programs that it names, with exactly the words
//! that were meant, whatever the names in it are.

mod programs;
mod recorder;
mod sources;
mod templates;
