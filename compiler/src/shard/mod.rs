//! The sharding of one mesh: groups, their strategies, reshard costs, and the integer program over them.

pub mod blame;
mod classes;
pub mod fixed;
pub mod grid;
pub mod groups;
pub mod pins;
pub mod presets;
pub mod problem;
pub mod reshard;
pub mod routing;
pub mod strategy;
