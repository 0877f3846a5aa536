//! Shows a plan: one self-contained HTML page, and explanations in the terminal.
//!
//! [`model`] derives a compact view-model from an [`ir::plan::Plan`]; [`page`] puts it into the page beside its style and scripts (`assets/`);
//! [`explain`] prints what the page's details panel shows for one value, op, layer or stage.
//! [`difference`] says what differs between two plans.
//! Nothing here decides or computes a plan: every number is read from the plan, or is a sum or an expansion of what it says.
//! A plan's text (names, reasons, notes) comes from users' files: the page never treats it as markup.

pub mod model;

mod depth;
mod diff;
mod draw;
mod explain;
mod lookup;
mod op_label;
mod page;
mod sharding_text;
pub mod timeline;

pub use diff::{Change, Difference, difference, render as difference_text};
pub use explain::{Explained, Explanation, LayerExplanation, StageExplanation, explain, explanation};
pub use page::{comparison_page, page};
