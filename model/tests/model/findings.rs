//! Open findings, their starts, causes, tuning and limits.

mod causes;
mod explanations;
mod night;
mod paging;
mod workers;
mod starts;
mod annotations;
mod rules;
mod limits;
mod limits_of_texts;
mod lasting_limits;
mod room;
mod events;
