//! The model.

pub mod reading;
