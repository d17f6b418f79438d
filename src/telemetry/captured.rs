//! Captures the log of a test.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// The lines that a test's thread logs.
pub(crate) struct Captured {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

struct Writer(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Captures the log of this thread from now on.
    pub(crate) fn start() -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let shared = text.clone();
        let writer = move || Writer(shared.clone());
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(super::fields::quoted())
            .with_ansi(false)
            .with_writer(writer)
            .finish();

        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let text = self.text.lock().expect("no panic").clone();
        let text = String::from_utf8(text).expect("UTF-8");
        text.lines().filter(|line| line.contains(" WARN ")).map(str::to_owned).collect()
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
