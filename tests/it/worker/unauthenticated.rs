//! The summing up of requests without a valid credential.

use std::sync::{Arc, Mutex};

use countersign::{
    app::ports::EntryFilter,
    domain::audit::entry::EventKind,
    worker::{Work as _, unauthenticated::Unauthenticated},
};

use crate::support::world::on_each_engine;

#[tokio::test]
async fn however_many_come_there_is_one_entry_a_route() {
    on_each_engine(|world| async move {
        let counts = vec![("GET /tools".to_owned(), 3), ("POST /decide".to_owned(), 70_000)];
        let counted = Mutex::new(counts);
        let take = Box::new(move || std::mem::take(&mut *counted.lock().unwrap()));
        let summing = Unauthenticated::new(Arc::clone(&world.app), take);
        summing.round().await.unwrap();
        summing.round().await.unwrap();
        let filter = EntryFilter { event: Some(EventKind::RequestUnauthenticated), ..EntryFilter::default() };
        let entries = world.store.entries(&filter, None, 10).await.unwrap();
        let told: Vec<_> = entries
            .iter()
            .map(|sealed| {
                (sealed.entry.detail["route"].as_str().unwrap(), sealed.entry.detail["count"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(told, [("POST /decide", 70_000), ("GET /tools", 3)]);
    })
    .await;
}
