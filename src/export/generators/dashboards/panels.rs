//! The panels of which dashboards consist. Everything that Grafana has a default for is left out.

use serde_json::{Value, json};

use super::colours::Meaning;

/// A panel, before it has a place.
pub(super) struct Panel {
    json: Value,
    pub(super) width: u64,
    pub(super) height: u64,
}

/// A column of a table.
pub(super) struct Column {
    field: &'static str,
    title: &'static str,
    properties: Vec<(&'static str, Value)>,
}

/// The steps of a threshold: a meaning from a value on. The first has no value.
pub(super) type Steps<'a> = &'a [(Meaning, Option<f64>)];

const SOURCE: &str = "${datasource}";

/// The labels from which queries build links.
const PARTS_OF_LINKS: [&str; 6] =
    ["page_url", "below", "runbook_start", "runbook_end", "path", "object"];

/// A new panel, with what all types have in common.
fn panel(r#type: &str, title: &str, description: &str) -> Panel {
    let json = json!({
        "type": r#type, "title": title, "description": description,
        "datasource": source(), "targets": [],
        "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
    });

    Panel { json, width: 12, height: 8 }
}

/// The data source that the user selects.
pub(super) fn source() -> Value {
    json!({"type": "prometheus", "uid": SOURCE})
}

/// One number.
pub(super) fn stat(title: &str, description: &str, query: &str, steps: Steps<'_>) -> Panel {
    let mut panel = panel("stat", title, description).instant(query).steps(steps);
    (panel.width, panel.height) = (4, 4);
    panel.defaults("color", json!({"mode": "thresholds"}));
    panel.json["options"] = json!({
        "colorMode": if steps.len() > 1 { "background" } else { "none" },
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
    });

    panel
}

/// Lines over time, with a label of their axis. A colour of the palette has no meaning, but a series
/// has the same one in each panel.
pub(super) fn lines(title: &str, description: &str, axis: &str) -> Panel {
    let mut panel = panel("timeseries", title, description);
    panel.defaults("color", json!({"mode": "palette-classic-by-name"}));
    panel.defaults("min", json!(0));
    panel.defaults("custom", json!({"axisLabel": axis, "fillOpacity": 0, "showPoints": "auto"}));
    panel.json["options"] = json!({
        "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom",
            "showLegend": true, "sortBy": "Max", "sortDesc": true},
        "tooltip": {"mode": "multi", "sort": "desc"},
    });

    panel
}

/// Horizontal bars, one for each series.
pub(super) fn bars(title: &str, description: &str, query: &str, legend: &str) -> Panel {
    let mut panel = panel("bargauge", title, description).instant(query);
    panel.json["targets"][0]["legendFormat"] = json!(legend);
    panel.json["options"] = json!({
        "displayMode": "basic", "orientation": "horizontal", "valueMode": "color",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
    });

    panel
}

/// A table: one row for each combination of the labels that its queries share. It is sorted by the
/// values of a query that `order` names, the highest first.
pub(super) fn table(
    title: &str,
    description: &str,
    queries: &[String],
    order: Option<&str>,
    columns: Vec<Column>,
) -> Panel {
    let mut panel = panel("table", title, description);
    for query in queries {
        panel = panel.instant(query);
    }
    for target in panel.json["targets"].as_array_mut().into_iter().flatten() {
        target["format"] = json!("table");
    }

    let mut steps = vec![json!({"id": "merge", "options": {}})];
    if let Some(field) = order {
        let sort = json!([{"field": field, "desc": true}]);
        steps.push(json!({"id": "sortBy", "options": {"sort": sort}}));
    }

    steps.push(organized(queries.len(), &columns));
    panel.json["transformations"] = Value::Array(steps);
    panel.defaults("custom", json!({"align": "left", "filterable": true}));

    for column in columns {
        let properties: Vec<_> = column.properties.into_iter().collect();
        panel = panel.matching("byName", column.title, &properties);
    }

    panel
}

/// Orders and names the columns, and leaves out values without one.
fn organized(queries: usize, columns: &[Column]) -> Value {
    let (mut order, mut names) = (json!({}), json!({}));
    for (index, column) in columns.iter().enumerate() {
        order[column.field] = json!(index);
        names[column.field] = json!(column.title);
    }

    let mut values: Vec<String> = ('A'..).take(queries).map(|id| format!("Value #{id}")).collect();
    if queries == 1 {
        values.push("Value".to_owned());
    }

    let mut excluded = json!({"Time": true});
    for field in values.into_iter().chain(PARTS_OF_LINKS.map(str::to_owned)) {
        if !columns.iter().any(|column| column.field == field) {
            excluded[field] = json!(true);
        }
    }

    let options = json!({"excludeByName": excluded, "indexByName": order, "renameByName": names});
    json!({"id": "organize", "options": options})
}

impl Panel {
    pub(super) fn wide(mut self, width: u64) -> Self {
        self.width = width;
        self
    }

    pub(super) fn high(mut self, height: u64) -> Self {
        self.height = height;
        self
    }

    /// Adds lines.
    pub(super) fn query(mut self, query: &str, legend: &str) -> Self {
        self.add(json!({"expr": query, "legendFormat": legend, "range": true}));
        self
    }

    /// Adds lines whose points lead to traces.
    pub(super) fn traced(mut self, query: &str, legend: &str) -> Self {
        let exemplar = json!({"expr": query, "legendFormat": legend, "range": true,
            "exemplar": true});
        self.add(exemplar);
        self
    }

    fn instant(mut self, query: &str) -> Self {
        self.add(json!({"expr": query, "legendFormat": "__auto", "instant": true}));
        self
    }

    fn add(&mut self, mut target: Value) {
        let targets = self.json["targets"].as_array_mut().expect("a list of queries");
        let id = ('A'..).nth(targets.len()).expect("a letter");
        target["refId"] = json!(id);
        target["datasource"] = source();
        target["editorMode"] = json!("code");
        targets.push(target);
    }

    fn defaults(&mut self, key: &str, value: Value) {
        self.json["fieldConfig"]["defaults"][key] = value;
    }

    fn matching(mut self, by: &str, options: &str, properties: &[(&str, Value)]) -> Self {
        if properties.is_empty() {
            return self;
        }

        let properties: Vec<Value> =
            properties.iter().map(|(id, value)| json!({"id": id, "value": value})).collect();
        let overrides = self.json["fieldConfig"]["overrides"].as_array_mut().expect("a list");
        overrides
            .push(json!({"matcher": {"id": by, "options": options}, "properties": properties}));

        self
    }

    pub(super) fn unit(mut self, unit: &str) -> Self {
        self.defaults("unit", json!(unit));
        self
    }

    pub(super) fn decimals(mut self, decimals: u64) -> Self {
        self.defaults("decimals", json!(decimals));
        self
    }

    pub(super) fn most(mut self, most: f64) -> Self {
        self.defaults("max", json!(most));
        self
    }

    /// The text without data.
    pub(super) fn none(mut self, text: &str) -> Self {
        self.defaults("noValue", json!(text));
        self
    }

    /// The shortest distance of two points, for counters that change seldom.
    pub(super) fn interval(mut self, interval: &str) -> Self {
        self.json["interval"] = json!(interval);
        self
    }

    pub(super) fn stacked(mut self) -> Self {
        let custom = &mut self.json["fieldConfig"]["defaults"]["custom"];
        custom["stacking"] = json!({"group": "A", "mode": "normal"});
        custom["fillOpacity"] = json!(40);
        self
    }

    fn steps(mut self, steps: Steps<'_>) -> Self {
        self.defaults("thresholds", thresholds(steps));
        self
    }

    /// Draws a dashed line at the value from which on a finding opens.
    pub(super) fn threshold(mut self, meaning: Meaning, value: f64) -> Self {
        self = self.steps(&[(Meaning::Good, None), (meaning, Some(value))]);
        self.json["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] =
            json!({"mode": "dashed"});
        self
    }

    /// The colours of the series whose legend begins with these words.
    pub(super) fn words(mut self, words: &[&str]) -> Self {
        for word in words {
            let colour = fixed(Meaning::of(word).colour());
            self = self.matching("byRegexp", &format!("/^{word}\\b/"), &[("color", colour)]);
        }

        self
    }

    /// The colour of the series whose legend matches.
    pub(super) fn coloured(self, legend: &str, meaning: Meaning) -> Self {
        self.matching("byRegexp", legend, &[("color", fixed(meaning.colour()))])
    }

    /// The colours of HTTP status codes, with which the legends begin.
    pub(super) fn codes(self) -> Self {
        self.coloured("/^[23]\\d\\d\\b/", Meaning::Good)
            .coloured("/^4\\d\\d\\b/", Meaning::Warn)
            .coloured("/^(5\\d\\d\\b|<error>)/", Meaning::Bad)
    }

    /// The limits among the series: dashed, and in the colour of text, because a limit is neither
    /// good nor bad.
    pub(super) fn limits(self, legend: &str) -> Self {
        let dashed = json!({"dash": [8, 8], "fill": "dash"});
        self.matching("byRegexp", legend, &[("color", fixed("text")), ("custom.lineStyle", dashed)])
    }

    /// Shows words instead of numbers.
    pub(super) fn values(mut self, values: &[(&str, &str)]) -> Self {
        self.defaults("mappings", mappings(values));
        self
    }

    /// A link below the title.
    pub(super) fn link(mut self, title: &str, url: &str) -> Self {
        self.json["links"] = json!([{"title": title, "url": url}]);
        self
    }

    /// The panel at its place.
    pub(super) fn at(mut self, id: u64, x: u64, y: u64) -> Value {
        self.json["id"] = json!(id);
        self.json["gridPos"] = json!({"x": x, "y": y, "w": self.width, "h": self.height});
        self.json
    }
}

impl Column {
    pub(super) fn new(field: &'static str, title: &'static str) -> Self {
        Self { field, title, properties: Vec::new() }
    }

    /// A field that only links need.
    pub(super) fn hidden(field: &'static str) -> Self {
        Self { field, title: field, properties: vec![("custom.hidden", json!(true))] }
    }

    pub(super) fn wide(self, width: u64) -> Self {
        self.with("custom.width", json!(width))
    }

    pub(super) fn unit(self, unit: &str) -> Self {
        self.with("unit", json!(unit))
    }

    pub(super) fn decimals(self, decimals: u64) -> Self {
        self.with("decimals", json!(decimals))
    }

    /// Words in the colours of their meanings.
    pub(super) fn words(self, words: &[&str]) -> Self {
        let same: Vec<(&str, &str)> = words.iter().map(|word| (*word, *word)).collect();
        self.with("mappings", mappings(&same)).in_colour("color-text")
    }

    /// Words instead of numbers, in the colours of their meanings.
    pub(super) fn values(self, values: &[(&str, &str)]) -> Self {
        self.with("mappings", mappings(values)).in_colour("color-background")
    }

    pub(super) fn steps(self, steps: Steps<'_>) -> Self {
        self.with("thresholds", thresholds(steps))
            .with("color", json!({"mode": "thresholds"}))
            .in_colour("color-text")
    }

    pub(super) fn link(self, title: &str, url: &str) -> Self {
        self.with("links", json!([{"title": title, "url": url, "targetBlank": true}]))
    }

    fn in_colour(self, r#type: &str) -> Self {
        self.with("custom.cellOptions", json!({"type": r#type}))
    }

    fn with(mut self, id: &'static str, value: Value) -> Self {
        self.properties.push((id, value));
        self
    }
}

fn fixed(colour: &str) -> Value {
    json!({"mode": "fixed", "fixedColor": colour})
}

fn mappings(values: &[(&str, &str)]) -> Value {
    let mut options = json!({});
    for (index, (value, word)) in values.iter().enumerate() {
        let colour = Meaning::of(word).colour();
        options[*value] = json!({"index": index, "text": word, "color": colour});
    }

    json!([{"type": "value", "options": options}])
}

fn thresholds(steps: Steps<'_>) -> Value {
    let steps: Vec<Value> = steps
        .iter()
        .map(|(meaning, value)| json!({"color": meaning.colour(), "value": value}))
        .collect();
    json!({"mode": "absolute", "steps": steps})
}
