//! Keys in memory.

use std::sync::{Arc, Mutex};

use countersign::{
    app::ports::Change,
    domain::ids::ApprovalId,
    worker::{Work as _, key_refresh::KeyRefresh},
};
use uuid::Uuid;

use crate::support::world::on_each_engine;

#[tokio::test]
async fn every_key_of_the_store_is_handed_on() {
    on_each_engine(|world| async move {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let take = {
            let taken = Arc::clone(&taken);
            Arc::new(move |keys| *taken.lock().unwrap() = keys)
        };
        let refresh = KeyRefresh { store: Arc::clone(&world.store), take };
        refresh.round().await.unwrap();
        let names: Vec<_> = taken.lock().unwrap().iter().map(|key| key.name().to_string()).collect();
        for name in ["ana", "billing-bot", "bo", "other-bot"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        assert!(refresh.wakes(&Change::Keys) && refresh.wakes(&Change::Unknown));
        assert!(!refresh.wakes(&Change::Approval(ApprovalId::from_uuid(Uuid::nil()))));
    })
    .await;
}
