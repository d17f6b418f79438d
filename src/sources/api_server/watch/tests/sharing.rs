//! Watches of several models that follow one stream.

use loopwatch_testbed::standin::Piece;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::sources::feed::Observations;

/// Two watches of the same objects, each of a model of its own.
struct Models {
    script: Script,
    shared: SharedWatchState,
}

/// One of them.
struct Follower {
    observations: Observations,
    task: JoinHandle<()>,
}

impl Models {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { script: Script::new(replies), shared: SharedWatchState::for_models() }
    }

    fn follow(&self) -> Follower {
        let (feed, observations) = Feed::new(10_000, VirtualClock::server());
        let name = WatchId("widgets.example.io".into());
        let sink = ObjectSink {
            watch: name.clone(),
            hash_key: HashKey([0; 16]),
            annotations: Arc::default(),
        };
        let watcher = Watcher::new(
            self.script.cluster(),
            WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), false),
            sink,
            feed,
            Arc::new(self.shared.for_another_model()),
            InitialSync::new().reporter(&name),
            false,
        );

        Follower { observations, task: tokio::spawn(watcher.run()) }
    }
}

impl Follower {
    /// What it has observed since the last call, except that it works.
    fn said(&mut self) -> Vec<String> {
        let all = std::iter::from_fn(|| self.observations.try_recv());
        let mut said: Vec<String> = all.map(|(_, observation)| say(&observation)).collect();
        said.retain(|line| line != "works");
        said
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// The list of a watch that begins later, which shows the widget as it is at version 20.
fn later_list() -> Reply {
    stream([event("ADDED", "a", 12), end_of_list(20), pause(300)])
}

const LATER: [&str; 3] = ["began 1", "listed a@12", "ended 1 at 20"];

#[tokio::test(start_paused = true)]
async fn a_watch_that_joins_misses_nothing_and_sees_nothing_twice() {
    let first = listed([
        pause(2),
        event("MODIFIED", "a", 12),
        event("ADDED", "b", 21),
        pause(4),
        event("MODIFIED", "a", 25),
        pause(300),
    ]);
    let models = Models::new([first, later_list()]);
    let mut a = models.follow();
    seconds(4).await;
    let mut b = models.follow();
    seconds(1).await;
    assert_eq!(b.said()[..3], LATER);
    assert_eq!(a.said()[3..], ["applied a@12", "applied b@21"]);

    seconds(4).await;
    assert_eq!(a.said(), ["applied a@25"]);
    assert_eq!(b.said(), ["applied a@25"]);
    assert_eq!(models.script.asked(), ["GET widgets watch initial"; 2], "no request to join");
}

#[tokio::test(start_paused = true)]
async fn recent_lines_that_the_list_lacks_come_when_a_watch_joins() {
    let first = listed([pause(1), event("ADDED", "b", 21), event("ADDED", "c", 22), pause(300)]);
    let models = Models::new([first, later_list()]);
    let _a = models.follow();
    seconds(4).await;
    let mut b = models.follow();
    seconds(1).await;

    let said = b.said();
    assert_eq!(
        (&said[..3], &said[3..]),
        (
            &LATER.map(str::to_owned)[..],
            &["applied b@21".to_owned(), "applied c@22".to_owned()][..]
        )
    );
}

#[tokio::test(start_paused = true)]
async fn all_continue_together_when_the_stream_ends() {
    let first = listed([pause(100)]);
    let next = stream([event("MODIFIED", "a", 30), pause(300)]);
    let models = Models::new([first, later_list(), next]);
    let (mut a, mut b) = (models.follow(), models.follow());
    seconds(120).await;

    let said = a.said();
    assert!(said.contains(&"applied a@30".to_owned()), "{said:?}, {:?}", models.script.asked());
    let said = b.said();
    assert!(said.contains(&"applied a@30".to_owned()), "{said:?}");
    let asked = models.script.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[2].starts_with("GET widgets watch from="), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_outlives_the_watch_that_opened_it() {
    let first = listed([pause(5), event("MODIFIED", "a", 30), pause(300)]);
    let models = Models::new([first, later_list()]);
    let a = models.follow();
    seconds(1).await;
    let mut b = models.follow();
    seconds(1).await;
    a.task.abort();
    seconds(5).await;

    assert_eq!(b.said()[3..], ["applied a@30"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_knows_too_little_to_join_has_a_stream_of_its_own() {
    let busy: Vec<Piece> = (0..100).map(|number| event("MODIFIED", "a", 100 + number)).collect();
    let first = listed(busy.into_iter().chain([pause(300)]));
    let own = stream([
        event("ADDED", "a", 12),
        end_of_list(20),
        pause(1),
        event("MODIFIED", "a", 100),
        pause(300),
    ]);
    let models = Models::new([first, own]);
    let _a = models.follow();
    seconds(2).await;
    let mut b = models.follow();
    seconds(3).await;

    assert_eq!(b.said()[3..], ["applied a@100"], "from its own stream");
}

#[tokio::test(start_paused = true)]
async fn lines_stay_for_those_who_join_for_a_minute() {
    for (quiet, expected) in [(50, "applied b@21"), (70, "applied c@31")] {
        let first = listed([event("ADDED", "b", 21), pause(quiet), bookmark(30), pause(100)]);
        let own = [event("ADDED", "a", 12), end_of_list(20), event("ADDED", "c", 31), pause(100)];
        let models = Models::new([first, stream(own)]);
        let _a = models.follow();
        seconds(quiet + 5).await;
        let mut b = models.follow();
        seconds(1).await;

        assert_eq!(b.said()[3], expected, "after {quiet} s");
    }
}
