//! Checkpoints over the log.

use std::sync::Arc;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use countersign::{
    app::{
        audit_log::VerificationFault,
        error::Error,
        ports::{CheckpointSigner, SigningError},
    },
    domain::audit::merkle::Frontier,
};
use serde_json::json;

use crate::support::world::{Setup, World, on_each_engine};

struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[5; 32]).unwrap())
    }
}

impl CheckpointSigner for Signer {
    fn sign(&self, text: &[u8]) -> Result<(String, String), SigningError> {
        Ok((STANDARD.encode(self.0.sign(text)), "key-1".to_owned()))
    }
}

struct BrokenSigner;

impl CheckpointSigner for BrokenSigner {
    fn sign(&self, _: &[u8]) -> Result<(String, String), SigningError> {
        Err(SigningError("no key".to_owned()))
    }
}

async fn root_over(world: &World, size: i64) -> [u8; 32] {
    let mut frontier = Frontier::default();
    for sealed in world.store.entries_after(0, u32::try_from(size).unwrap()).await.unwrap() {
        frontier.push(sealed.leaf);
    }
    frontier.root()
}

#[tokio::test]
async fn a_checkpoint_signs_size_root_and_time_of_everything_so_far() {
    on_each_engine(|world| async move {
        let signer = Signer::new();
        world.decide("read_file", json!({ "path": "a" })).await;
        for _ in 0..2 {
            world.decide("send_email", json!({ "to": "a" })).await;
            let checkpoint = world.app.make_checkpoint(Some(&signer)).await.unwrap().unwrap();
            assert_eq!(checkpoint.size, world.store.head().await.unwrap().seq);
            assert_eq!(checkpoint.root, root_over(&world, checkpoint.size).await);
            assert_eq!(checkpoint.at, world.app.now());
            assert_eq!(checkpoint.key_id.as_deref(), Some("key-1"));
            let text = checkpoint.signed_text();
            assert!(text.contains(&format!("\n{}\n{}\n", checkpoint.size, hex::encode(checkpoint.root))));
            let signature = STANDARD.decode(checkpoint.signature.as_ref().unwrap()).unwrap();
            let key = UnparsedPublicKey::new(&ED25519, signer.0.public_key().as_ref());
            key.verify(text.as_bytes(), &signature).unwrap();
            assert_eq!(world.store.checkpoints(1).await.unwrap(), [checkpoint]);
        }
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn nothing_new_makes_no_new_checkpoint_and_a_log_without_a_key_an_unsigned_one() {
    on_each_engine(|world| async move {
        let checkpoint = world.app.make_checkpoint(None).await.unwrap().unwrap();
        assert_eq!((checkpoint.signature, checkpoint.key_id), (None, None));
        assert_eq!(world.app.make_checkpoint(None).await.unwrap(), None);
        let another = world.another_instance(Setup::default()).await;
        assert_eq!(another.app.make_checkpoint(Some(&Signer::new())).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_signed_is_none() {
    on_each_engine(|world| async move {
        let answer = world.app.make_checkpoint(Some(&BrokenSigner)).await;
        assert!(matches!(answer, Err(Error::Signing(_))), "{answer:?}");
        assert_eq!(world.store.checkpoints(9).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_log_that_is_not_the_one_a_checkpoint_covers_is_found_out() {
    on_each_engine(|world| async move {
        let mut checkpoint = world.app.make_checkpoint(None).await.unwrap().unwrap();
        world.decide("read_file", json!({ "path": "a" })).await;
        checkpoint.size += 1;
        checkpoint.root = [9; 32];
        let mut tx = world.store.begin().await.unwrap();
        assert!(tx.insert_checkpoint(&checkpoint).await.unwrap());
        tx.commit().await.unwrap();
        let verification = world.app.verify_audit().await.unwrap();
        assert_eq!(verification.fault, Some((checkpoint.size, VerificationFault::Checkpoint)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_instances_make_one_checkpoint_of_a_size() {
    on_each_engine(|world| async move {
        let another = world.another_instance(Setup::default()).await;
        let make = |world: &World| {
            let app = Arc::clone(&world.app);
            tokio::spawn(async move { app.make_checkpoint(Some(&Signer::new())).await.unwrap() })
        };
        let racing = [make(&world), make(&another), make(&world), make(&another)];
        let mut made = 0;
        for checkpoint in racing {
            made += usize::from(checkpoint.await.unwrap().is_some());
        }
        assert_eq!(made, 1);
        assert_eq!(world.store.checkpoints(9).await.unwrap().len(), 1);
    })
    .await;
}
