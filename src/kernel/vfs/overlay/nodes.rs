//! The nodes of an overlay, by number. Clones share them until one is written to.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::node::{Body, MountId, Node, NodeId, TimesOf};
use crate::kernel::vfs::layer::FileType;
use crate::kernel::vfs::layer::Times;

/// Nodes copied together when one of them is written to in a clone.
const PAGE_NODES: usize = 32;

type Page = [Node; PAGE_NODES];

/// The nodes of an overlay, in pages, so that a clone is cheap however many there are.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct Nodes {
    pages: Vec<Arc<Page>>,
    /// Numbers given out, including those in `free`.
    len: usize,
    free: Vec<u32>,
}

impl Nodes {
    /// Adds `node` and returns its number.
    pub fn insert(&mut self, node: Node) -> NodeId {
        if let Some(index) = self.free.pop() {
            self[NodeId(index)] = node;
            return NodeId(index);
        }
        let id = id_of(self.len);
        if self.len.is_multiple_of(PAGE_NODES) {
            self.pages.push(Arc::new(std::array::from_fn(|_| vacant())));
        }
        self.len += 1;
        self[id] = node;
        id
    }

    /// Makes the number `id` available for the next insertion.
    pub fn free(&mut self, id: NodeId) {
        self.free.push(id.0);
    }

    /// All numbers that were given out, with their nodes; free ones have placeholders.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let nodes = self.pages.iter().flat_map(|page| page.iter());
        nodes.take(self.len).enumerate().map(|(index, node)| (id_of(index), node))
    }

    /// As [`Nodes::iter`], without the nodes.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.len).map(id_of)
    }
}

fn id_of(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("the limit on bytes bounds the nodes"))
}

fn vacant() -> Node {
    Node {
        ino: 0,
        nlink: 0,
        opens: 0,
        is_being_written: false,
        executable: None,
        mount: MountId(0),
        times: Times::all(0),
        times_of: TimesOf::Clock,
        origin: None,
        body: Body::Special(FileType::Unknown),
    }
}

impl Index<NodeId> for Nodes {
    type Output = Node;

    #[inline]
    fn index(&self, id: NodeId) -> &Node {
        let index = id.0 as usize;
        &self.pages[index / PAGE_NODES][index % PAGE_NODES]
    }
}

impl IndexMut<NodeId> for Nodes {
    #[inline]
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        let index = id.0 as usize;
        &mut Arc::make_mut(&mut self.pages[index / PAGE_NODES])[index % PAGE_NODES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ino: u64) -> Node {
        Node { ino, nlink: 1, ..vacant() }
    }

    #[test]
    fn clones_share_pages_until_one_is_written_to() {
        let mut nodes = Nodes::default();
        for ino in 0..100 {
            assert_eq!(nodes.insert(node(ino)), NodeId(ino as u32));
        }
        let mut fork = nodes.clone();
        fork[NodeId(40)].ino = 1000;
        nodes[NodeId(99)].ino = 2000;
        let shared = |(a, b): &(&Arc<Page>, &Arc<Page>)| Arc::ptr_eq(a, b);
        assert_eq!(nodes.pages.iter().zip(&fork.pages).filter(shared).count(), 2);
        assert_eq!((nodes[NodeId(40)].ino, fork[NodeId(40)].ino), (40, 1000));
        assert_eq!((nodes[NodeId(99)].ino, fork[NodeId(99)].ino), (2000, 99));
    }

    #[test]
    fn free_numbers_are_reused() {
        let mut nodes = Nodes::default();
        for ino in 0..PAGE_NODES as u64 {
            nodes.insert(node(ino));
        }
        nodes.free(NodeId(3));
        assert_eq!(nodes.insert(node(7)), NodeId(3));
        assert_eq!(nodes.insert(node(8)), NodeId(PAGE_NODES as u32));
        assert_eq!(nodes.iter().count(), PAGE_NODES + 1);
        assert_eq!(nodes.ids().last(), Some(NodeId(PAGE_NODES as u32)));
    }
}
