//! A TCP proxy to the API server that can break connections. TLS is end to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::kube::RUNTIME;

/// The state of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Everything passes.
    Whole,
    /// Existing connections (up to this number) stay open but transfer nothing, as behind a
    /// firewall that has lost its state. New ones work.
    Frozen(u64),
    /// All connections stay open but transfer nothing, as if the other side were paused.
    Silent,
    /// New connections are closed immediately.
    Broken,
}

/// A wire to one port of this machine.
pub struct Wire {
    /// The port to connect to.
    pub port: u16,
    mode: watch::Sender<Mode>,
    /// Closes all open connections when its value changes.
    cut: watch::Sender<u64>,
    opened: Arc<AtomicU64>,
}

impl Wire {
    /// Creates a wire to a port.
    pub fn to(target: u16) -> Self {
        let listener = RUNTIME.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
        let port = listener.local_addr().expect("our own port").port();
        let (mode, modes) = watch::channel(Mode::Whole);
        let (cut, cuts) = watch::channel(0);
        let opened = Arc::new(AtomicU64::new(0));
        let count = opened.clone();

        RUNTIME.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if *modes.borrow() == Mode::Broken {
                    continue; // dropping it closes it
                }

                let number = count.fetch_add(1, Ordering::Relaxed);
                let (modes, mut cuts) = (modes.clone(), cuts.clone());
                cuts.mark_unchanged();
                RUNTIME.spawn(async move {
                    // The reason why it ended does not matter.
                    let _ = carry(near, target, number, modes, cuts).await;
                });
            }
        });

        Self { port, mode, cut, opened }
    }

    /// Returns the address of the API server through this wire.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Closes every connection, including new ones.
    pub fn break_off(&self) {
        self.mode.send_replace(Mode::Broken);
        self.cut();
    }

    /// Keeps every connection open and transfers nothing.
    pub fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Stops the transfer on existing connections; new ones work.
    pub fn freeze(&self) {
        self.mode.send_replace(Mode::Frozen(self.opened.load(Ordering::Relaxed)));
    }

    /// Resumes all transfers. Delayed data arrives late, as with TCP retransmissions.
    pub fn mend(&self) {
        self.mode.send_replace(Mode::Whole);
    }

    /// Returns the number of connections so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

async fn carry(
    near: TcpStream,
    target: u16,
    number: u64,
    modes: watch::Receiver<Mode>,
    mut cuts: watch::Receiver<u64>,
) -> io::Result<()> {
    let far = TcpStream::connect(("127.0.0.1", target)).await?;
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::select! {
        both = async {
            tokio::try_join!(pass(near_in, far_out, number, modes.clone()), pass(far_in, near_out, number, modes))
        } => both.map(drop),
        _ = cuts.changed() => Ok(()),
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    number: u64,
    mut modes: watch::Receiver<Mode>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;

        // A silent wire does not even pass on the end of a connection.
        let passes = |mode: &Mode| match mode {
            Mode::Silent => false,
            Mode::Frozen(before) => number >= *before,
            Mode::Whole | Mode::Broken => true,
        };
        let _ = modes.wait_for(passes).await;
        if length == 0 {
            return to.shutdown().await;
        }

        to.write_all(&buffer[..length]).await?;
    }
}
