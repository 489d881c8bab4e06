//! The Merkle tree over the log's leaves (RFC 9162, section 2.1), grown one leaf at a time.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::chain::Hash;

/// The roots of the full subtrees of a log of `size` leaves, the largest first: all that growing the tree needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frontier {
    size: u64,
    #[serde(with = "hex_list")]
    subtrees: Vec<Hash>,
}

impl Frontier {
    /// How many leaves there are.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        // Every trailing one bit of the size is a full subtree as large as the one that grows here.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                node = parent(&left, &node);
            }
        }
        self.subtrees.push(node);
        self.size += 1;
    }

    /// The root hash; that of no leaves is `SHA-256("")`.
    pub fn root(&self) -> Hash {
        let mut subtrees = self.subtrees.iter().rev();
        match subtrees.next() {
            None => Sha256::digest([]).into(),
            Some(smallest) => subtrees.fold(*smallest, |right, left| parent(left, &right)),
        }
    }
}

fn parent(left: &Hash, right: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([1]);
    hasher.update(left);
    hasher.update(right);
    hasher.finalize().into()
}

mod hex_list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Hash;

    pub(super) fn serialize<S: Serializer>(hashes: &[Hash], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hashes.iter().map(hex::encode))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Hash>, D::Error> {
        Vec::<String>::deserialize(deserializer)?
            .iter()
            .map(|text| {
                let mut hash = [0; 32];
                hex::decode_to_slice(text, &mut hash).map(|()| hash).map_err(D::Error::custom)
            })
            .collect()
    }
}
