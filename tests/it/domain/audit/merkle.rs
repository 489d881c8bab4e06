//! The Merkle tree over the log's leaves, against the recursive definition of RFC 9162, section 2.1.1.

use countersign::domain::audit::{chain::Hash, merkle::Frontier};
use sha2::{Digest, Sha256};

fn leaf(number: u32) -> Hash {
    Sha256::digest(number.to_be_bytes()).into()
}

/// The definition: split at the largest power of two below the size.
fn root_by_definition(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [only] => *only,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            let mut node = Sha256::new();
            node.update([1]);
            node.update(root_by_definition(&leaves[..split]));
            node.update(root_by_definition(&leaves[split..]));
            node.finalize().into()
        }
    }
}

#[test]
fn the_root_is_that_of_the_definition_at_every_size() {
    let mut frontier = Frontier::default();
    let mut leaves = Vec::new();
    assert_eq!(frontier.root(), root_by_definition(&leaves));
    for number in 0..200 {
        frontier.push(leaf(number));
        leaves.push(leaf(number));
        assert_eq!(frontier.root(), root_by_definition(&leaves), "size {}", leaves.len());
    }
    assert_eq!(frontier.size(), 200);
}

#[test]
fn a_frontier_goes_on_growing_after_being_written_and_read() {
    let mut frontier = Frontier::default();
    (0..77).for_each(|number| frontier.push(leaf(number)));
    let mut read: Frontier = serde_json::from_str(&serde_json::to_string(&frontier).unwrap()).unwrap();
    assert_eq!(read, frontier);
    frontier.push(leaf(77));
    read.push(leaf(77));
    assert_eq!(read.root(), frontier.root());
}
