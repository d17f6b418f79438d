//! A headless browser, driven over the DevTools protocol. It speaks JSON over two pipes, so no
//! WebSocket is necessary.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// How long the browser may take for one command, and for a condition to become true.
const PATIENCE: Duration = Duration::from_secs(30);
/// The browser's message if it leaves a page while it evaluates an expression there.
const LEFT_THE_PAGE: &str = "Inspected target navigated or closed";

/// A browser with one tab.
pub(crate) struct Browser {
    process: Child,
    commands: File,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Errors on the console, exceptions, and violations of the content security policy.
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let pipes = ["to", "from"].map(|name| profile.path().join(name));
        let made = Command::new("mkfifo").args(&pipes).status().expect("mkfifo runs");

        assert!(made.success());

        // The browser reads commands from file descriptor 3 and writes to 4.
        let process = Command::new("sh")
            .args(["-c", "to=$1; from=$2; shift 2; exec \"$@\" 3<\"$to\" 4>\"$from\"", "sh"])
            .args(&pipes)
            .args([
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");

        let commands =
            File::options().write(true).open(&pipes[0]).expect("the browser reads commands");
        let answers = File::open(&pipes[1]).expect("the browser answers");
        let (sender, messages) = channel();

        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });

        let mut browser = Self {
            process,
            commands,
            messages,
            session: String::new(),
            last_id: 0,
            errors: vec![],
            _profile: profile,
        };

        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser
            .call("Target.attachToTarget", json!({ "targetId": tab["targetId"], "flatten": true }));
        browser.session =
            attached["sessionId"].as_str().expect("chromium is installed and starts").to_owned();

        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }

        browser
    }

    /// Opens a page and waits until it and its script are loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for(&format!(
            "location.href === {} && document.readyState === 'complete'",
            json!(url)
        ));
    }

    /// Sets the size of the window, and whether the user prefers dark colours.
    pub(crate) fn emulate(&mut self, width: u32, dark: bool) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);

        let scheme = if dark { "dark" } else { "light" };
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// Allows or forbids scripts on the pages that it opens from now on.
    pub(crate) fn allow_scripts(&mut self, allow: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !allow }));
    }

    /// Presses a key, as a user would: `Tab`, `Enter`, `Escape` or a character.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };

        let text = match key {
            "Enter" => "\r",
            "Tab" | "Escape" => "",
            character => character,
        };
        let event = |kind: &str| json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });

        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// Clicks in the middle of the first element that matches.
    pub(crate) fn click(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const box = document.querySelector({}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        );
        let middle = self.eval(&middle);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The upper part of the page as PNG, with `scale` device pixels per CSS pixel.
    pub(crate) fn picture(&mut self, width: u32, height: &Value, scale: f64) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": scale });
        let options = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", options);
        base64::engine::general_purpose::STANDARD
            .decode(picture["data"].as_str().unwrap_or_default())
            .expect("base64")
    }

    /// Types a text into the field that has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The value of an expression.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let answer = self.evaluate(expression);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");

        answer["result"]["value"].clone()
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        self.call("Runtime.evaluate", evaluation(expression))
    }

    /// Waits until an expression is true. While a page is loading, parts of it may be absent, and
    /// the browser gives no value if it leaves the page during the evaluation.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        while !self.is_true(expression) {
            let page = if start.elapsed() < PATIENCE {
                Value::Null
            } else {
                self.eval("document.body.innerText")
            };

            assert!(page.is_null(), "never true: {expression}; the page shows: {page}");

            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_true(&mut self, expression: &str) -> bool {
        match self.try_call("Runtime.evaluate", evaluation(&format!("Boolean({expression})"))) {
            Ok(answer) => answer["result"]["value"] == true,
            Err(error) if error["message"] == LEFT_THE_PAGE => false,
            Err(error) => panic!("{expression}: {error}"),
        }
    }

    /// Fails if the browser has reported an error so far.
    pub(crate) fn assert_no_errors(&mut self) {
        self.eval("1"); // its answer comes after what was reported before
        assert!(self.errors.is_empty(), "{:#?}", self.errors);
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }

        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser runs");

        loop {
            let message = self
                .messages
                .recv_timeout(PATIENCE)
                .expect("the browser answers; is chromium installed?");
            if message["id"] == self.last_id {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }

            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let details = &message["params"];
        let is_error = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                details["type"] == "error" || details["type"] == "warning"
            }
            Some("Log.entryAdded") => details["entry"]["level"] == "error",
            _ => false,
        };

        if is_error {
            self.errors.push(message.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn evaluation(expression: &str) -> Value {
    json!({ "expression": expression, "returnByValue": true })
}
