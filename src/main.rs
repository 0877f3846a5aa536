//! The `shardwright` command.
fn main() {}
