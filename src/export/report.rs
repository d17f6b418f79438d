//! stub
use loopwatch_model::snapshot::{ObjectRow, Snapshot};
/// F
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// a
    Table,
    /// b
    Json,
    /// c
    Markdown,
}
/// s
#[derive(Clone, Copy, Debug)]
pub struct Style;
/// s
pub fn style(_: Format) -> Style {
    Style
}
/// s
pub fn text(_: &Snapshot, _: Option<&[ObjectRow]>, _: Style) -> String {
    String::new()
}
/// s
pub fn json(s: &Snapshot, r: Option<&[ObjectRow]>) -> String {
    serde_json::to_string(&super::json::check(s, r)).unwrap_or_default()
}
