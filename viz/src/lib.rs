//! Writes the plan page.
