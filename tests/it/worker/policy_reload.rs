//! The watching of the policy's files.

use std::sync::{Arc, Mutex};

use countersign::{
    domain::{
        audit::entry::EventKind,
        policy::{Fault, Loaded, Policy, SourceFile},
    },
    worker::{
        Work as _,
        policy_reload::{PolicyReload, PolicySource},
    },
};

use crate::support::world::{POLICY, World, files, on_each_engine};

/// Files that the test writes.
struct Written(Mutex<Result<Vec<SourceFile>, String>>);

impl PolicySource for Written {
    fn read(&self) -> Result<Vec<SourceFile>, String> {
        self.0.lock().unwrap().clone()
    }

    fn load(&self, files: &[SourceFile]) -> Result<Loaded, Vec<Fault>> {
        Policy::load(files)
    }
}

impl Written {
    fn write(&self, text: &str) {
        *self.0.lock().unwrap() = Ok(files(text));
    }
}

fn watch(world: &World) -> (PolicyReload, Arc<Written>) {
    let source = Arc::new(Written(Mutex::new(Ok(files(POLICY)))));
    (PolicyReload::new(Arc::clone(&world.app), Arc::<Written>::clone(&source), files(POLICY)), source)
}

fn edited() -> String {
    format!("{POLICY}\n# edited\n")
}

async fn events(world: &World) -> Vec<EventKind> {
    let entries = world.store.entries_after(0, 1_000).await.unwrap();
    let events = entries.into_iter().map(|sealed| sealed.entry.event);
    events.filter(|event| matches!(event, EventKind::PolicyLoaded | EventKind::PolicyRefused)).collect()
}

#[tokio::test]
async fn an_edit_decides_once_two_looks_show_the_same() {
    on_each_engine(|world| async move {
        let (reload, source) = watch(&world);
        let before = world.app.policy().version().clone();
        reload.round().await.unwrap();
        source.write("schema = 1\n");
        reload.round().await.unwrap();
        source.write(&edited());
        reload.round().await.unwrap();
        assert_eq!(*world.app.policy().version(), before, "it was being written");
        reload.round().await.unwrap();
        assert_eq!(*world.app.policy().version(), *Policy::load(&files(&edited())).unwrap().policy.version());
        reload.round().await.unwrap();
        assert_eq!(events(&world).await, [EventKind::PolicyLoaded]);
    })
    .await;
}

#[tokio::test]
async fn who_asks_says_that_the_files_are_whole() {
    on_each_engine(|world| async move {
        let (reload, source) = watch(&world);
        let before = world.app.policy().version().clone();
        source.write(&edited());
        reload.ask();
        reload.round().await.unwrap();
        assert_ne!(*world.app.policy().version(), before);
    })
    .await;
}

#[tokio::test]
async fn a_faulty_edit_is_recorded_once_and_decides_nothing() {
    on_each_engine(|world| async move {
        let (reload, source) = watch(&world);
        let before = world.app.policy().version().clone();
        source.write("schema = 2\n");
        for _ in 0..4 {
            reload.round().await.unwrap();
        }
        assert_eq!(*world.app.policy().version(), before);
        assert_eq!(events(&world).await, [EventKind::PolicyRefused]);
        // Mended by undoing it: the one in force is in force.
        source.write(POLICY);
        for _ in 0..4 {
            reload.round().await.unwrap();
        }
        assert_eq!(*world.app.policy().version(), before);
        assert_eq!(events(&world).await, [EventKind::PolicyRefused]);
    })
    .await;
}

#[tokio::test]
async fn files_that_cannot_be_read_decide_nothing() {
    on_each_engine(|world| async move {
        let (reload, source) = watch(&world);
        let before = world.app.policy().version().clone();
        *source.0.lock().unwrap() = Err("gone".to_owned());
        for _ in 0..3 {
            reload.round().await.unwrap();
        }
        assert_eq!(*world.app.policy().version(), before);
    })
    .await;
}
