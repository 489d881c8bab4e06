//! Checkpoints, in the store and in the file that leaves the machine.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign::{
    auth::{checkpoint::CheckpointKey, permit::SigningKey},
    worker::{Work as _, checkpoint::Checkpoints},
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::world::{World, on_each_engine};

const MINUTE: Duration = Duration::from_secs(60);

fn key() -> (CheckpointKey, Ed25519KeyPair) {
    let der = SigningKey::generate(&[7; 32]).unwrap().expose_pkcs8_der().to_vec();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(&der));
    (CheckpointKey::from_pkcs8_pem(&pem).unwrap(), Ed25519KeyPair::from_pkcs8(&der).unwrap())
}

fn signed(world: &World, file: Option<PathBuf>) -> Checkpoints {
    Checkpoints::new(Arc::clone(&world.app), Some(Arc::new(key().0)), MINUTE, file)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_is_a_signed_line_that_anyone_with_the_public_key_can_check() {
    on_each_engine(|world| async move {
        let folder = tempdir().unwrap();
        let file = folder.path().join("checkpoints.jsonl");
        let checkpoints = signed(&world, Some(file.clone()));
        checkpoints.round().await.unwrap();
        // The log has not grown: nothing new to say.
        checkpoints.round().await.unwrap();
        world.app.decide_call(&world.bot, &world.call("write_note", json!({ "text": "a" }))).await.unwrap();
        checkpoints.round().await.unwrap();

        let lines = lines(&fs::read_to_string(&file).unwrap());
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["size"], lines[0]["size"].as_i64().unwrap() + 1);
        for line in &lines {
            let (size, root, micros) = (&line["size"], line["root"].as_str().unwrap(), &line["time_micros"]);
            let text = format!("countersign checkpoint v1\n{size}\n{root}\n{micros}\n");
            let signature = STANDARD.decode(line["signature"].as_str().unwrap()).unwrap();
            let public = UnparsedPublicKey::new(&ED25519, key().1.public_key().as_ref().to_vec());
            public.verify(text.as_bytes(), &signature).unwrap();
        }
        assert!(world.app.verify_audit().await.unwrap().fault.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_line_that_could_not_be_written_is_written_later() {
    on_each_engine(|world| async move {
        let folder = tempdir().unwrap();
        let file = folder.path().join("not-yet/checkpoints.jsonl");
        let checkpoints = signed(&world, Some(file.clone()));
        checkpoints.round().await.unwrap_err();
        fs::create_dir(folder.path().join("not-yet")).unwrap();
        checkpoints.round().await.unwrap();
        assert_eq!(lines(&fs::read_to_string(&file).unwrap()).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn without_a_key_they_are_made_and_not_signed() {
    on_each_engine(|world| async move {
        Checkpoints::new(Arc::clone(&world.app), None, MINUTE, None).round().await.unwrap();
        let newest = world.store.checkpoints(1).await.unwrap().pop().unwrap();
        assert_eq!((newest.signature, newest.key_id), (None, None));
    })
    .await;
}
