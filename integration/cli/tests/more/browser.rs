//! A headless Chromium, led by its WebDriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use beadlock_testkit::{PATIENCE, Running, Scene, skip, until};
use serde_json::{Value, json};

/// A window without a screen. Dropped, the browser ends.
pub struct Browser {
    address: String,
    session: String,
    _driver: Running,
}

impl Browser {
    /// A window of this size, in light or dark; `None` where there is no Chromium, which is said.
    pub fn open(scene: &Scene, size: (u32, u32), is_dark: bool) -> Option<Self> {
        let chromium = skip::tool("chromium")?;
        let mut command = scene.command(skip::tool("chromedriver")?);
        command.arg("--port=0").env("HOME", scene.path());
        let driver = Running::apart(command);
        let log = || driver.out();
        let port = || {
            Some(
                log()
                    .split_once("successfully on port ")?
                    .1
                    .split_once('.')?
                    .0
                    .to_owned(),
            )
        };
        until("the driver listens", || port().is_some());
        let address = format!("127.0.0.1:{}", port().expect("a port"));
        let args = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--user-data-dir={}", scene.file("profile").display()),
            format!("--window-size={},{}", size.0, size.1),
            format!(
                "--blink-settings=preferredColorScheme={}",
                u8::from(!is_dark)
            ),
        ];
        let options = json!({ "binary": chromium, "args": args });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = call(&address, "POST", "/session", &wanted);
        let session = made["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("no session: {made}"))
            .to_owned();
        Some(Self {
            address,
            session,
            _driver: driver,
        })
    }

    fn ask(&self, what: &str, body: &Value) -> Value {
        call(
            &self.address,
            "POST",
            &format!("/session/{}/{what}", self.session),
            body,
        )
    }

    /// Opens a file and waits until it is loaded.
    pub fn show(&self, file: &Path) {
        self.ask(
            "url",
            &json!({ "url": format!("file://{}", file.display()) }),
        );
    }

    /// What a script returns in the page, whatever the page's own policy.
    pub fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Presses keys one after the other.
    pub fn press(&self, keys: &str) {
        let each = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let keyboard =
            json!({ "type": "key", "id": "keyboard", "actions": each.collect::<Vec<_>>() });
        self.ask("actions", &json!({ "actions": [keyboard] }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = exchange(
            &self.address,
            "DELETE",
            &format!("/session/{}", self.session),
            "",
        );
    }
}

#[track_caller]
fn call(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let answer = exchange(address, method, path, &body.to_string()).expect("the driver answers");
    let answer: Value =
        serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}"));
    let value = answer["value"].clone();
    assert!(value["error"].is_null(), "{path}: {value}");
    value
}

fn exchange(address: &str, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n"
    );
    stream.write_all(format!("{head}Content-Type: application/json\r\n\r\n{body}").as_bytes())?;
    // The driver keeps the connection open, so the end of the answer is where its length says.
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            if line.trim().is_empty() {
                break;
            } else {
                continue;
            }
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
