//! What the service logs while a test looks on.

use std::{
    io::Write,
    sync::{Arc, Mutex, Once},
};

use countersign::telemetry::{Format, subscriber};
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};
use tracing_subscriber::{filter::dynamic_filter_fn, layer::SubscriberExt as _};

/// The lines that one thread has logged.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Collects what this thread logs until the guard is dropped.
    pub(crate) fn collect(&self, format: Format, filter: &str) -> DefaultGuard {
        keep_every_place_asking();
        let lines = self.clone();
        set_default(subscriber(format, filter, move || lines.clone()).unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Whether anybody wants what a place in the code logs is remembered for the whole process, and while there is but one
/// subscriber it is asked of the thread that comes by that place first: another test's, which has none, could so silence
/// the place for the test that collects. A subscriber for all threads that wants nothing but will not have that remembered
/// keeps every place asking the thread it runs on.
fn keep_every_place_asking() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_global_default(tracing_subscriber::registry().with(dynamic_filter_fn(|_, _| false))).unwrap();
    });
}

#[tokio::test]
async fn a_place_that_another_thread_passed_first_is_heard_all_the_same() {
    fn say() {
        tracing::info!("here");
    }
    let lines = Lines::default();
    let guard = lines.collect(Format::Text, "info");
    std::thread::spawn(say).join().unwrap();
    say();
    drop(guard);
    assert_eq!(lines.text().matches("here").count(), 1, "{}", lines.text());
}
