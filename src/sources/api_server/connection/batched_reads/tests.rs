use std::future::poll_fn;

use kube::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::*;
use crate::sources::api_server::Cluster;
use crate::sources::api_server::connection::{JSON, chunk};

/// Long enough to tell a delayed read from one that is not.
const BATCH_TIME: Duration = Duration::from_millis(400);

/// A connection, and the socket of its server.
async fn connect() -> (BatchedStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client =
        TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
    let (server, _) = listener.accept().await.expect("accepted");

    server.set_nodelay(true).expect("an option");
    (BatchedStream::new(client), server)
}

/// A connection that has just begun to gather.
async fn batch() -> (BatchedStream, TcpStream) {
    let (mut client, mut server) = connect().await;
    client.batch_time.set(BATCH_TIME);
    for _ in 0..2 {
        server.write_all(b"x").await.expect("written");
        assert_eq!(read(&mut client).await.expect("read"), b"x");
    }

    assert!(client.batch.is_some());

    (client, server)
}

async fn read(client: &mut BatchedStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    let read = timeout(Duration::from_secs(5), client.read(&mut bytes)).await.expect("in time")?;
    bytes.truncate(read);
    Ok(bytes)
}

#[tokio::test]
async fn many_small_writes_arrive_complete_and_in_order_with_few_wake_ups() {
    let (mut client, mut server) = connect().await;
    client.batch_time.set(Duration::from_millis(64));

    let sent: Vec<u8> =
        (0..300_u32).flat_map(|number| format!("{number:>50}\n").into_bytes()).collect();
    let writes = sent.clone();
    let writing = tokio::spawn(async move {
        for line in writes.chunks(51) {
            server.write_all(line).await.expect("written");
            sleep(Duration::from_millis(1)).await;
        }
    });

    let (mut received, mut buffer, mut wake_ups) = (Vec::new(), [0; 100], 0);
    while received.len() < sent.len() {
        let mut buffer = ReadBuf::new(&mut buffer);
        poll_fn(|context| {
            let polled = Pin::new(&mut client).poll_read(context, &mut buffer);
            wake_ups += u32::from(polled.is_pending());
            polled
        })
        .await
        .expect("read");

        assert!(!buffer.filled().is_empty(), "the end of the stream came too early");

        received.extend_from_slice(buffer.filled());
    }

    writing.await.expect("no panic");
    assert_eq!(received, sent);
    assert!(wake_ups < 100, "{wake_ups} wake-ups for 300 packets");
}

#[tokio::test]
async fn a_single_change_is_read_at_once_and_starts_no_timer() {
    let (mut client, mut server) = connect().await;
    client.batch_time.set(BATCH_TIME);
    for _ in 0..2 {
        sleep(MOMENT).await;
        let began = Instant::now();
        server.write_all(b"x").await.expect("written");

        assert_eq!(read(&mut client).await.expect("read"), b"x");
        assert!(began.elapsed() < BATCH_TIME / 2 && client.batch.is_none());

        sleep(MOMENT).await;
    }
}

#[tokio::test]
async fn a_connection_does_not_gather_unless_its_reader_asks_for_it() {
    let (mut client, mut server) = connect().await;
    for _ in 0..10 {
        server.write_all(b"x").await.expect("written");
        assert_eq!(read(&mut client).await.expect("read"), b"x");
        assert!(client.batch.is_none());
    }
}

#[tokio::test]
async fn a_request_ends_the_gathering_and_its_response_is_not_delayed() {
    let (mut client, mut server) = batch().await;
    server.write_all(b"left over,").await.expect("written");

    let answering = tokio::spawn(async move {
        let mut request = [0; 4];
        server.read_exact(&mut request).await.expect("a request");
        for _ in 0..10 {
            sleep(Duration::from_millis(1)).await;
            server.write_all(&request).await.expect("written");
        }

        server
    });

    let (mut received, began) = (Vec::new(), Instant::now());

    // The reader waits before the request comes, like hyper.
    let mut buffer = [0; 100];
    let reading = poll_fn(|context| {
        let mut buffer = ReadBuf::new(&mut buffer);
        Poll::Ready(Pin::new(&mut client).poll_read(context, &mut buffer).is_pending())
    });

    assert!(reading.await, "it gathers");

    client.write_all(b"ping").await.expect("written");
    while received.len() < 50 {
        received.extend(read(&mut client).await.expect("read"));
    }

    assert_eq!(received, [&b"left over,"[..], &b"ping".repeat(10)].concat());
    assert!(began.elapsed() < BATCH_TIME, "{:?}", began.elapsed());
    assert!(client.batch.is_none() && client.batch_time.get().is_zero());

    drop(answering.await.expect("no panic"));
}

#[tokio::test]
async fn a_request_wakes_a_reader_that_waits_for_the_timer() {
    let (client, mut server) = batch().await;
    let (mut reader, mut writer) = tokio::io::split(client);
    let reading = tokio::spawn(async move {
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).await.map(|_| (bytes, Instant::now()))
    });

    sleep(Duration::from_millis(20)).await;
    let began = Instant::now();
    writer.write_all(b"ping").await.expect("written");
    server.write_all(b"pong").await.expect("written");

    let (bytes, read_at) = reading.await.expect("no panic").expect("read");
    assert_eq!(&bytes, b"pong");
    assert!(read_at - began < BATCH_TIME / 2, "{:?}", read_at - began);
}

#[tokio::test]
async fn the_end_of_the_stream_is_read_after_the_data() {
    let (mut client, mut server) = batch().await;
    server.write_all(b"last").await.expect("written");
    drop(server);

    assert_eq!(read(&mut client).await.expect("read"), b"last");

    for _ in 0..3 {
        assert_eq!(read(&mut client).await.expect("the end"), b"");
    }
}

#[tokio::test]
async fn a_reset_is_an_error() {
    let (mut client, server) = batch().await;
    socket2::SockRef::from(&server).set_linger(Some(Duration::ZERO)).expect("an option");
    drop(server);

    assert_eq!(
        read(&mut client).await.map_err(|error| error.kind()),
        Err(io::ErrorKind::ConnectionReset)
    );
}

#[tokio::test]
async fn an_idle_connection_sets_no_timer() {
    let (mut client, mut server) = batch().await;
    let mut polls = 0;
    let mut buffer = [0; 100];
    let mut buffer = ReadBuf::new(&mut buffer);
    let reading = poll_fn(|context| {
        polls += 1;
        Pin::new(&mut client).poll_read(context, &mut buffer)
    });

    assert!(timeout(BATCH_TIME * 4, reading).await.is_err(), "there is nothing to read");
    assert!(client.batch.is_none());
    assert!(polls <= 4, "{polls} wake-ups");

    let began = Instant::now();
    server.write_all(b"x").await.expect("written");

    assert_eq!(read(&mut client).await.expect("read"), b"x");
    assert!(began.elapsed() < BATCH_TIME / 2);
}

/// Answers each request on a connection with two chunks.
async fn serve(listener: TcpListener) {
    let (mut connection, _) = listener.accept().await.expect("accepted");
    let mut request = [0; 4096];
    while connection.read(&mut request).await.is_ok_and(|read| read > 0) {
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await
            .expect("written");
        for chunk in ["3\r\n{}\n\r\n", "3\r\n{}\n\r\n", "0\r\n\r\n"] {
            sleep(Duration::from_millis(5)).await;
            connection.write_all(chunk.as_bytes()).await.expect("written");
        }
    }
}

#[tokio::test]
async fn the_reader_of_a_response_controls_its_connection_until_the_next_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(serve(listener));
    let client = crate::sources::api_server::connection::client::build(Config::new(
        url.parse().expect("a URL"),
    ))
    .expect("a client");
    let cluster = Cluster::from_client(client, url);
    let (mut body, batch_time) =
        cluster.open_stream("/api/v1/pods?watch=true", JSON).await.expect("a response");

    batch_time.set(BATCH_TIME);
    let began = Instant::now();
    let mut text = Vec::new();

    while let Some(chunk) = chunk(&mut body).await.expect("a chunk") {
        text.extend_from_slice(&chunk);
    }

    assert_eq!(text, b"{}\n{}\n");
    assert!(began.elapsed() >= BATCH_TIME, "it gathered");

    let began = Instant::now();
    let (_, same_connection) = cluster.open_stream("/version", JSON).await.expect("a response");

    assert!(Arc::ptr_eq(&batch_time.0, &same_connection.0));
    assert!(batch_time.get().is_zero() && began.elapsed() < BATCH_TIME / 2);

    serving.abort();
}

/// Answers one request on each connection with three chunks, and closes the connection.
async fn serve_once(listener: TcpListener) {
    loop {
        let (mut connection, _) = listener.accept().await.expect("accepted");
        let mut request = [0; 4096];

        assert!(connection.read(&mut request).await.expect("a request") > 0);

        connection
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await
            .expect("written");
        for chunk in ["3\r\n{}\n\r\n", "3\r\n{}\n\r\n", "3\r\n{}\n\r\n0\r\n\r\n"] {
            sleep(Duration::from_millis(5)).await;
            connection.write_all(chunk.as_bytes()).await.expect("written");
        }
    }
}

#[tokio::test]
async fn a_request_after_the_server_has_closed_a_gathering_connection_uses_a_new_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(serve_once(listener));
    let client = crate::sources::api_server::connection::client::build(Config::new(
        url.parse().expect("a URL"),
    ))
    .expect("a client");
    let cluster = Cluster::from_client(client, url);

    for gather in [Duration::ZERO, BATCH_TIME, BATCH_TIME] {
        let (mut body, batch_time) =
            cluster.open_stream("/api/v1/pods?watch=true", JSON).await.expect("a response");
        batch_time.set(gather);

        let mut text = Vec::new();
        while let Some(chunk) = chunk(&mut body).await.expect("a chunk") {
            text.extend_from_slice(&chunk);
        }

        assert_eq!(text, b"{}\n{}\n{}\n");
    }

    serving.abort();
}

#[test]
fn a_fast_stream_gathers_for_a_shorter_time() {
    let (gather, second) = (Duration::from_millis(64), Duration::from_secs(1));
    assert_eq!(batch_time_for(gather, 0, second), gather);
    assert_eq!(batch_time_for(gather, 430_000, second), gather, "100 changes of 4.3 KB per second");

    let fast = batch_time_for(gather, 60_000_000, second);
    assert!(fast < Duration::from_millis(1), "60 MB per second: {fast:?}");
    assert!(batch_time_for(gather, 6_000_000, Duration::ZERO) < Duration::from_millis(1));

    // A stream that fills the window in each wait may be faster than the measured rate.
    assert!(batch_time_for(gather, 64 << 10, Duration::from_millis(5)) < Duration::from_millis(4));
    assert_eq!(batch_time_for(gather, 1, Duration::MAX), gather);
}
