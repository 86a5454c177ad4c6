//! The file system of the kernel: one namespace of copy-on-write mounts.
//!
//! - [`Layer`] is a read-only tree below; [`HostDir`] is the one over a directory of the host.
//! - [`Overlay`] is everything else: names, links, contents, times, inode numbers. All changes
//!   live there, in memory.
//!
//! Nothing here writes to the disk but [`patch`], when it is asked to.

mod attr;
mod content;
mod dirs;
mod file_io;
mod host;
mod layer;
mod links;
mod mount;
mod node;
mod open;
mod overlay;
mod path;
mod rename;
mod resolve;

pub use attr::{Metadata, SetTime};
pub use host::{HostDir, HostFile};
pub use layer::{Blob, DirEntry, FileType, Layer, Stat};
pub use mount::{Mount, Mtimes, Source};
pub use node::{Listed, MountId, NodeId, Times};
pub use open::OpenFlags;
pub use overlay::{Overlay, VfsLimits};
pub use path::{NAME_MAX, SYMLOOP_MAX, VPath};
pub use resolve::{Base, Follow};
