//! Executes a plan on devices that talk through a transport.
