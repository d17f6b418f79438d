//! Plays a recording at N times its original speed, while the page shows it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::finding::FindingEvent;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::override_settings;
use tokio::time::Instant;

use crate::app::{self, SharedModel};
use crate::cli::{print, timeline};
use crate::config::{JudgeFlags, ServeFlags};
use crate::export::server::Exporter;
use crate::export::view::{Input, RecordingInput};
use crate::lock::lock;
use crate::recording::Recording;

/// A recording to play.
pub(in crate::cli) struct Paced<'a> {
    pub(in crate::cli) recording: Recording,
    pub(in crate::cli) settings: Settings,
    /// How the user wants loopwatch to judge it.
    pub(in crate::cli) judge: Option<JudgeFlags>,
    /// The speed, relative to the original speed.
    pub(in crate::cli) speed: f64,
    /// The time in the recording at which to stop, instead of the end.
    pub(in crate::cli) until: Option<Timestamp>,
    pub(in crate::cli) serve: &'a ServeFlags,
}

/// Parses a speed.
///
/// # Errors
/// If it is not a positive number: at the speed `NaN`, nothing would ever happen.
pub(in crate::cli) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| *speed > 0.0);
    speed.ok_or_else(|| "expected a positive number".to_owned())
}

/// Handles a finding event.
pub(in crate::cli) type OnEvents = Box<dyn FnMut(&[FindingEvent]) + Send>;

/// The lowest and the highest speed.
const SPEEDS: (f64, f64) = (0.01, 1e6);

/// Tells the user that nothing more happens, and what remains.
const ENDED: &str = "The recording has ended. The page shows its last moment until you stop loopwatch with Ctrl-C.\n";

/// The longest time between two steps.
const STEP: Duration = Duration::from_millis(100);

impl Paced<'_> {
    /// Plays the recording and serves it until interrupted, even after its end.
    pub(in crate::cli) fn serve(self, on_events: OnEvents) -> anyhow::Result<()> {
        app::runtime()?.block_on(async {
            let model = Arc::new(Mutex::new(Model::new(self.settings)));
            let stop = app::stop_signal();
            let exporter = app::exporter(model.clone(), self.serve);
            let speed = self.speed.clamp(SPEEDS.0, SPEEDS.1);
            let played =
                Played { model, exporter: exporter.clone(), judge: self.judge, speed, on_events };
            let playing = tokio::spawn(played.play(self.recording, self.until));

            timeline::serve(self.serve.listen, exporter, stop).await?;
            playing.abort();
            Ok(())
        })
    }
}

/// The state of a playing recording.
struct Played {
    model: SharedModel,
    exporter: Arc<Exporter>,
    judge: Option<JudgeFlags>,
    speed: f64,
    on_events: OnEvents,
}

/// The current time in the recording.
struct Pace {
    /// When the recording began to play.
    start: Instant,
    /// The first time in the recording.
    first: Timestamp,
    speed: f64,
}

impl Pace {
    fn now(&self) -> Timestamp {
        self.first.after(Span((self.start.elapsed().as_secs_f64() * 1000.0 * self.speed) as i64))
    }

    /// How long it takes until the given time in the recording; `None` if it has passed.
    fn wait_for(&self, at: Timestamp) -> Option<Duration> {
        let due = Duration::try_from_secs_f64(at.since(self.first).seconds() / self.speed)
            .unwrap_or(Duration::MAX);
        due.checked_sub(self.start.elapsed()).filter(|wait| !wait.is_zero())
    }
}

impl Played {
    /// Applies the recording up to `until` or to its end. Time also advances between observations,
    /// so that the ages on the page grow.
    async fn play(mut self, mut recording: Recording, until: Option<Timestamp>) {
        let mut input = RecordingInput::new(&recording.header().recorded_by);
        input.speed = Some(self.speed);

        let (mut now, mut pace) = (None, None);
        while let Some(mut line) = recording.next() {
            if let Some(judge) = &self.judge {
                override_settings(&mut line.saw, judge, lock(&self.model).settings());
            }

            let stops = until.is_some_and(|until| until < line.at);
            let next = until.map_or(line.at, |until| until.min(line.at));
            input.begins.get_or_insert(next);

            let pace = pace.get_or_insert_with(|| Pace {
                start: Instant::now(),
                first: next,
                speed: self.speed,
            });
            while let Some(wait) = pace.wait_for(next) {
                let at = pace.now().min(next);
                self.apply(at, Observation::Tick);
                self.show(&mut input, &recording, at);
                tokio::time::sleep(wait.min(STEP)).await;
            }

            if stops {
                break;
            }

            self.apply(line.at, line.saw);
            now = Some(line.at);
        }

        input.speed = None;
        if let Some(at) = until.or(now) {
            self.show(&mut input, &recording, at);
        }
        let _ = print(ENDED); // the page says it, too
    }

    fn apply(&mut self, at: Timestamp, observation: Observation) {
        let mut model = lock(&self.model);
        model.apply(at, observation);
        model.probes(); // the recording contains the answers
        model.reference_events(); // the webhook received them at the time

        let events = model.finding_events();
        drop(model);
        (self.on_events)(&events);
    }

    fn show(&self, input: &mut RecordingInput, recording: &Recording, at: Timestamp) {
        input.shows = Some(at);
        input.set_unread(&recording.unread());
        self.exporter.set_input(Input { recording: Some(input.clone()), ..Input::default() });
    }
}
