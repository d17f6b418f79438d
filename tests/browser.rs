//! The web pages in a real browser, with the demo's incident. They need Chromium.

#![expect(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a broken test should stop, and no runtime waits for it"
)]

#[path = "browser/devtools.rs"]
mod devtools;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use devtools::Browser;
use loopwatch_testbed::standin::{GROUP, Standin, Traits};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{http, ports};

/// The demo, at one speed.
struct Demo {
    process: Child,
    /// Its address, `http://127.0.0.1:1234/`.
    url: String,
}

impl Demo {
    fn start(speed: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_loopwatch"))
            .args(["demo", "--listen", "127.0.0.1:0", "--speed", speed])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("loopwatch runs");

        let mut lines =
            BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let url =
            lines.find_map(|line| line.strip_prefix("Page:").map(|url| url.trim().to_owned()));

        std::thread::spawn(move || lines.count()); // keeps the pipe empty
        Self { process, url: url.unwrap_or_else(|| panic!("the demo prints its address")) }
    }

    fn object(&self, name: &str) -> String {
        format!(
            "{}object?group=zoo.loopwatch.dev&kind=Widget&namespace=webshop&name={name}",
            self.url
        )
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `loopwatch run` with a stand-in for an API server.
struct Run {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Run {
    /// Starts it, and waits until it knows all objects.
    fn start(server: &Standin, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = ports::free();
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        let process = server
            .run_beside(&mut command, folder.path())
            .arg(format!("--listen=127.0.0.1:{port}"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("loopwatch runs");

        eventually(Duration::from_secs(120), "the objects are known", || {
            http::get(port, "/readyz")
        });
        Self { process, port, _folder: folder }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The number of unhealthy objects that the overview shows.
const SHOWN_OBJECTS: &str = "[...document.querySelectorAll('tr[data-key^=\"o-\"]')].filter((row) => row.offsetHeight > 0).length";

/// Moves the pointer to the middle of a chart.
const POINT_AT_A_CHART: &str = "(() => {
  const chart = document.querySelector('.plot svg');
  chart.scrollIntoView();
  const { left, top, width, height } = chart.getBoundingClientRect();
  const place = { bubbles: true, clientX: left + width / 2, clientY: top + height / 2 };
  chart.dispatchEvent(new PointerEvent('pointermove', place));
})()";

#[test]
fn the_incident_plays_on_the_page_which_can_be_filtered_by_keyboard() {
    let demo = Demo::start("1000");
    let mut browser = Browser::start();
    browser.open(&demo.url);
    browser
        .wait_for("document.querySelector('.recording').innerText.startsWith('A recording plays')");

    // The page updates without a reload.
    browser.eval("window.stays = 1");
    browser.wait_for("document.body.innerText.includes('PhaseCycling opened')");
    browser.wait_for("document.body.innerText.includes('PhaseCycling closed')");
    browser.wait_for(
        "document.querySelector('.recording').innerText.startsWith('The recording has ended.')",
    );

    let note = browser.eval("document.querySelector('.recording').innerText");
    assert!(
        note.as_str().is_some_and(|note| note.contains(" UTC, 2h54m after it began. ")),
        "{note}"
    );
    assert_eq!(browser.eval("window.stays"), 1);
    assert!(
        browser.eval("document.querySelectorAll('#timeline ~ .charts path[d^=M]').length").as_u64()
            > Some(2)
    );

    // All charts show the values below the pointer.
    browser.eval(POINT_AT_A_CHART);
    browser.wait_for("[...document.querySelectorAll('.plot output')].every((output) => /^\\d\\d:\\d\\d:\\d\\d: /.test(output.innerText))");

    let all = browser.eval(SHOWN_OBJECTS);
    browser.press("/");

    assert_eq!(browser.eval("document.activeElement.id"), "filter");

    browser.type_text("ledger");
    browser.wait_for(&format!("{SHOWN_OBJECTS} === 1"));
    assert_eq!(browser.eval("location.search"), "?filter=ledger", "a reload keeps the filter");
    browser.type_text("x");
    browser.wait_for(&format!("{SHOWN_OBJECTS} === 0"));
    browser.wait_for("document.getElementById('nothing').offsetHeight > 0");
    assert_eq!(
        browser.eval("document.querySelector('#nothing a').getAttribute('href') && document.querySelector('#nothing a').search"),
        "?search=ledgerx"
    );
    browser.press("Escape");
    browser.wait_for(&format!("{SHOWN_OBJECTS} === {all}"));
    assert_eq!(browser.eval("location.search"), "");
    assert_eq!(browser.eval("document.getElementById('nothing').offsetHeight"), 0);

    // An update loses neither the focus nor the scroll position.
    browser.eval("document.querySelector('#kinds ~ .kinds a').focus(); scrollTo(0, 400)");
    browser.eval("window.asked = performance.getEntriesByType('resource').length");
    browser.wait_for("performance.getEntriesByType('resource').length > window.asked + 1");

    assert_eq!(browser.eval("scrollY"), 400);
    assert_eq!(browser.eval("document.activeElement.matches('#kinds ~ .kinds a')"), true);

    // A link from an alert selects its finding.
    browser.open(&format!("{}?filter=Regressed+webshop#findings", demo.url));
    browser.wait_for("[...document.querySelectorAll('.card')].filter((card) => card.offsetHeight > 0).length === 1");
    browser.press("/");
    browser.press("Escape");

    // Every link has a visible focus.
    browser.press("Tab");
    let focus = "getComputedStyle(document.activeElement).outlineStyle !== 'none' && document.activeElement.matches('a')";

    assert_eq!(browser.eval(focus), true);

    browser.press("Enter");
    browser.wait_for("location.pathname === '/objects'");
    browser.assert_no_errors();
}

#[test]
fn objects_are_found_while_the_user_types_and_without_a_script() {
    let demo = Demo::start("1000000");
    let mut browser = Browser::start();
    browser.open(&format!("{}objects", demo.url));
    browser.wait_for("document.querySelectorAll('tbody tr').length > 20");
    browser.press("/");
    browser.type_text("shop/ledger");
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1");

    assert_eq!(browser.eval("location.search"), "?search=shop%2Fledger");
    assert_eq!(browser.eval("document.activeElement.id"), "search", "the user can go on typing");

    browser.open(&format!("{}objects?limit=10", demo.url));
    browser.wait_for("document.querySelector('tbody .state').innerText === 'failed'");
    browser
        .wait_for("document.querySelector('[role=status].more').innerText === '10 of 26 objects.'");
    browser.eval("document.querySelector('a[rel=next]').focus()");
    browser.press("Enter");
    browser
        .wait_for("location.search.includes('continue=') && document.querySelector('a[rel=prev]')");

    browser.eval("document.querySelector('a[rel=prev]').focus()");
    browser.press("Enter");
    browser.wait_for(
        "location.search.includes('before=') && document.querySelector('tbody .state').innerText === 'failed'",
    );
    browser.eval("document.querySelector('th a').focus()");
    browser.press("Enter");
    browser.wait_for(
        "document.querySelector('th[aria-sort=ascending]')?.innerText.startsWith('Object')",
    );

    browser.open(&format!("{}objects?search=shop%2Fledger", demo.url));
    browser.eval("document.querySelector('tbody a').focus()");
    browser.press("Enter");
    browser.wait_for(
        "location.pathname === '/object' && document.body.innerText.includes('Regressed opened')",
    );
    browser.open(&demo.object("nothing"));
    browser.wait_for("document.querySelector('h1').innerText === 'Not found'");

    browser.allow_scripts(false);
    browser.open(&format!("{}objects", demo.url));
    browser.wait_for("document.querySelectorAll('tbody tr').length > 20");
    browser.eval("document.getElementById('search').focus()");
    browser.type_text("ledger config");
    browser.press("Enter");
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1");

    assert_eq!(browser.eval("location.search"), "?search=ledger+config&kind=&state=&namespace=");
}

#[test]
fn people_read_why_an_object_is_in_its_state_not_the_name_of_a_rule() {
    let demo = Demo::start("1000000");
    let mut browser = Browser::start();
    browser.open(&format!("{}objects?search=shop%2Fshipping", demo.url));
    browser.wait_for("document.querySelector('tbody td:last-child').innerText === 'Ready=True'");
    browser.open(&format!("{}objects", demo.url));

    let rules = "[...document.querySelectorAll('tbody td:last-child')].filter((cell) => /^\\w*$/.test(cell.innerText)).length";
    browser.wait_for("document.querySelectorAll('tbody tr').length > 20");

    assert_eq!(
        browser.eval(rules),
        0,
        "{}",
        browser.eval("document.querySelector('tbody').innerText")
    );

    // The cause is still there after convergence.
    browser.open(&demo.object("search"));
    browser.wait_for("document.querySelectorAll('.lane svg svg').length > 3");
    browser.wait_for("document.querySelector('ol.timeline').innerText.includes('by kubectl-edit')");
    browser.wait_for("[...document.querySelectorAll('.graph a')].some((link) => link.getAttribute('href').startsWith('object?'))");
    browser.open(&demo.object("shipping"));
    browser.wait_for("document.querySelector('.headline p').innerText.endsWith(': Ready=True')");
    browser.wait_for("document.getElementById('live').innerText === 'ended'");

    assert_eq!(
        browser.eval("document.querySelector('.trace')"),
        serde_json::Value::Null,
        "no traces"
    );

    browser.assert_no_errors();
}

#[test]
fn an_object_shows_its_trace_for_copying_if_traces_are_exported() {
    let server = Standin::start(Traits::default());
    let mut browser = Browser::start();
    for (flags, traced) in [(&["--otlp=http://127.0.0.1:9"][..], true), (&[], false)] {
        let run = Run::start(&server, flags);
        let query = format!("group={GROUP}&kind=Kind0&namespace=default&name=object-3");
        browser.open(&format!("http://127.0.0.1:{}/object?{query}", run.port));
        browser.wait_for("document.querySelector('.facts')");

        assert_eq!(browser.eval("document.querySelectorAll('.trace').length"), u64::from(traced));

        if traced {
            let explained =
                http::get(run.port, &format!("/api/v1/explain?{query}")).expect("the API answers");
            let explained: serde_json::Value = serde_json::from_str(&explained).expect("JSON");

            assert_eq!(
                browser.eval("document.querySelector('.trace').innerText"),
                explained["trace_id"]
            );

            // One click selects the whole ID.
            browser.click(".trace");
            assert_eq!(browser.eval("getSelection().toString()"), explained["trace_id"]);
            assert_eq!(
                browser.eval("document.querySelectorAll('.facts a').length"),
                0,
                "no URL of a backend is known"
            );
        }
    }

    browser.assert_no_errors();
}

#[test]
fn the_pages_are_readable_on_a_narrow_screen_and_in_dark_colours() {
    let demo = Demo::start("1000000");
    let mut browser = Browser::start();
    let pages = [
        demo.url.clone(),
        format!("{}objects", demo.url),
        demo.object("sessions"),
        format!("{}runbooks/Unacknowledged", demo.url),
    ];

    for (url, width, dark) in pages.iter().flat_map(|url| {
        [400, 1280, 1920].map(|width| (url, width, true)).into_iter().chain([
            (url, 400, false),
            (url, 1920, false),
            (url, 320, false),
        ])
    }) {
        browser.emulate(width, dark);
        browser.open(url);
        browser.wait_for("document.readyState === 'complete' && document.querySelector('main h1')");

        let wide = browser
            .eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");

        assert_eq!(wide, 0, "{url} scrolls sideways at {width} px");
        assert_eq!(browser.eval(LOW_CONTRAST), "", "{url}, dark: {dark}");
        assert_eq!(browser.eval(UNLABELLED), "", "{url}");
        assert_eq!(browser.eval(CUT_COMMANDS), 0, "{url} cuts commands at {width} px");
        assert_eq!(browser.eval(BROKEN_WORDS), "", "{url} breaks words at {width} px");
        assert_eq!(browser.eval(OVERLAPS), "", "labels overlap at {width} px: {url}");
    }

    browser.assert_no_errors();
}

#[test]
fn an_unknown_address_leads_to_a_page_in_the_style_of_the_others() {
    let demo = Demo::start("1000000");
    let mut browser = Browser::start();
    for (path, width, dark) in [("nothing", 400, true), ("runbooks/nothing", 1280, false)] {
        browser.emulate(width, dark);
        browser.open(&format!("{}{path}", demo.url));
        browser.wait_for("document.querySelector('h1')?.innerText === 'Not found'");
        browser.wait_for(
            "getComputedStyle(document.querySelector('.headline')).borderRadius !== '0px'",
        );

        assert_eq!(browser.eval(LOW_CONTRAST), "", "{path}, dark: {dark}");

        browser.eval("document.querySelector('a.name').focus()");
        browser.press("Enter");
        browser.wait_for("location.pathname === '/'");
    }
}

/// Writes the picture in `README.md`: the end of the incident, down to its second finding. It needs
/// pngquant.
#[test]
#[ignore = "writes docs/images/page.png"]
fn picture() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images/page.png");

    let demo = Demo::start("1000000");
    let mut browser = Browser::start();
    browser.emulate(1280, false);
    browser.open(&demo.url);
    browser.wait_for("document.getElementById('live').innerText === 'ended'");

    let end = browser.eval(
        "Math.ceil(document.querySelectorAll('.card')[1].getBoundingClientRect().bottom) + 20",
    );
    std::fs::write(FILE, browser.picture(1280, &end, 1.4)).expect("our own file");

    let smaller = Command::new("pngquant")
        .args(["--force", "--speed=1", "--strip", "--ext=.png", "64", FILE])
        .status();

    assert!(smaller.expect("pngquant is installed").success());

    let bytes = std::fs::metadata(FILE).expect("it is there").len();
    assert!(bytes < 200_000, "{bytes} bytes are many for a page that people read on their phones");
}

/// The text whose contrast with its background is below 4.5:1.
const LOW_CONTRAST: &str = "(() => {
  const colour = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = colour(getComputedStyle(node).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const low = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.nodeValue.trim() || !node.offsetParent || node.closest('option, script, noscript')) continue;
    const [a, b] = [light(colour(getComputedStyle(node).color).slice(0, 3)), light(background(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.add(`${node.className || node.nodeName}: ${contrast.toFixed(1)}`);
  }
  return [...low].join(', ');
})()";

/// The number of commands of which only a part is visible.
const CUT_COMMANDS: &str = "[...document.querySelectorAll('.command code')].filter((code) => code.scrollWidth > code.clientWidth + 1).length";

/// The words of texts in tables of runbooks that take more than one line.
const BROKEN_WORDS: &str = "(() => {
  const broken = new Set();
  for (const cell of document.querySelectorAll('.runbook :is(th, td)')) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const { 0: word, index } of texts.currentNode.nodeValue.matchAll(/[A-Za-z]+/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        if (new Set([...range.getClientRects()].map((rect) => rect.top)).size > 1) broken.add(word);
      }
    }
  }
  return [...broken].join(', ');
})()";

/// The labels of a time axis that overlap the next one, or leave their picture.
const OVERLAPS: &str = "[...document.querySelectorAll('.axis svg')].flatMap((axis) => {
  const labels = [...axis.querySelectorAll('text')].filter((text) => text.getBoundingClientRect().width > 0);
  const end = axis.getBoundingClientRect().right + 1;
  return labels.filter((text, index) => {
    const { right } = text.getBoundingClientRect();
    const next = labels[index + 1];
    return right > (next ? next.getBoundingClientRect().left : end);
  }).map((text) => text.textContent);
}).join(', ')";

/// The fields, links and buttons that a screen reader could not name.
const UNLABELLED: &str =
    "[...document.querySelectorAll('input:not([type=hidden]), select, button, a, svg[role=img]')]
  .filter((node) => !(node.labels && [...node.labels].some((label) => label.textContent.trim()))
    && !node.textContent.trim() && !node.getAttribute('aria-label'))
  .map((node) => node.outerHTML).join(', ')";
