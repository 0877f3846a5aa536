//! A small WebDriver client: starts `chromedriver`, and speaks the protocol (W3C WebDriver, JSON over HTTP) to headless Chromium.
//!
//! The driver and the browser end when [`Browser`] is dropped.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A browser under control.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Kept open, so that the driver can go on writing.
    _output: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Browser {
    /// Starts a browser; `None` when this machine has no Chromium or no driver.
    pub(crate) fn start(width: u32, height: u32) -> Option<Browser> {
        let found = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
        if !found("chromedriver") || !found("chromium") {
            return None;
        }
        let mut driver = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut lines = BufReader::new(driver.stdout.take().expect("stdout is piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok());
        let mut browser = Browser { driver, port: port.expect("the driver names its port"), session: String::new(), _output: lines };
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let size = format!("--window-size={width},{height}");
        let arguments: Vec<&str> = arguments.into_iter().chain([size.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": { "browserName": "chrome", "goog:loggingPrefs": { "browser": "ALL" }, "goog:chromeOptions": { "args": arguments } } } });
        let answer = browser.request("POST", "/session", &wanted);
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_string();
        Some(browser)
    }
    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(240))).expect("a time limit can be set");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .expect("the driver reads");
        let mut answer = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while answer.read_line(&mut line).expect("the driver answers") > 2 {
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut bytes = vec![0; length];
        answer.read_exact(&mut bytes).expect("the driver answers in full");
        let body = String::from_utf8_lossy(&bytes);
        let json: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e} in {body}"));
        json["value"].clone()
    }
    fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.request("POST", &format!("/session/{}/{path}", self.session), &body);
        assert!(answer.get("error").is_none(), "{path}: {answer}");
        answer
    }
    /// Loads a page.
    pub(crate) fn open(&self, url: &str) {
        self.post("url", json!({ "url": url }));
    }
    /// What a JavaScript expression gives.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.post("execute/sync", json!({ "script": format!("return ({expression})"), "args": [] }))
    }
    fn element(&self, css: &str) -> String {
        let found = self.post("element", json!({ "using": "css selector", "value": css }));
        found.as_object().and_then(|o| o.values().next()).and_then(Value::as_str).unwrap_or_else(|| panic!("no element {css}")).to_string()
    }
    /// Clicks an element, as a mouse would.
    pub(crate) fn click(&self, css: &str) {
        let element = self.element(css);
        self.post(&format!("element/{element}/click"), json!({}));
    }
    /// Types into an element.
    pub(crate) fn keys(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.post(&format!("element/{element}/value"), json!({ "text": text }));
    }
    /// Moves the mouse over an element.
    pub(crate) fn hover(&self, css: &str) {
        let element = self.element(css);
        let origin = json!({ "element-6066-11e4-a52e-4f735466cecf": element });
        let moves = json!([{ "type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0 }]);
        self.post("actions", json!({ "actions": [{ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": moves }] }));
    }
    /// The text that an element shows.
    pub(crate) fn text(&self, css: &str) -> String {
        self.eval(&format!("document.querySelector({}).textContent", json!(css))).as_str().unwrap_or("").to_string()
    }
    /// How many elements match.
    pub(crate) fn count(&self, css: &str) -> u64 {
        self.eval(&format!("document.querySelectorAll({}).length", json!(css))).as_u64().unwrap_or(0)
    }
    /// A command of the browser's own protocol.
    pub(crate) fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }
    /// Seconds of processor time that the page's thread was busy; needs `Performance.enable`.
    pub(crate) fn busy(&self) -> f64 {
        let answer = self.cdp("Performance.getMetrics", json!({}));
        let metrics = answer["metrics"].as_array().expect("metrics");
        metrics.iter().find(|m| m["name"] == "TaskDuration").and_then(|m| m["value"].as_f64()).expect("the page's busy time")
    }
    /// Errors that the page logged since last asked.
    pub(crate) fn errors(&self) -> Vec<String> {
        let log = self.post("se/log", json!({ "type": "browser" }));
        log.as_array().into_iter().flatten().filter(|e| e["level"] == "SEVERE").map(|e| e["message"].to_string()).collect()
    }
    /// A picture of the window, as PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let answer = self.request("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        base64(answer.as_str().expect("a picture"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.request("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for d in text.bytes().filter_map(digit) {
        held = held << 6 | u32::from(d);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}
