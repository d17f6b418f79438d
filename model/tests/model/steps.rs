//! The way of one observation: restarts, clock, random histories.

mod restarts;
mod clock;
mod clock_dates;
mod ticks;
mod relists;
mod huge_numbers;
mod random;
mod simulation;
