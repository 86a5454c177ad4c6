//! Modules that depend on each other in a cycle, and so can only be understood together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};

use crate::tidy::{root, rust_sources};

/// Known cycles: the folder, its modules in the cycle, and the reason.
const KNOWN: &[(&str, &[&str], &str)] = &[
    (
        "kernel",
        &["guest", "host", "machine", "process"],
        "a machine holds the programs that its processes start, which are processes of that machine",
    ),
    (
        "kernel/vfs/overlay",
        &["listing", "node"],
        "the node of a directory keeps what it was listed as, which names nodes",
    ),
    (
        "native",
        &["children", "image"],
        "a program of the host may start others, by what started it",
    ),
    (
        "mcp",
        &["client", "server", "tools"],
        "a server makes clients, which call tools, which work with the sandboxes of their client",
    ),
    ("process/shell", &["lexer", "parser", "words"], "a word may hold a command: `$( )`"),
];

/// The path of a module, starting at the crate.
type Module = Vec<String>;

/// The modules of the crate, and their dependencies.
#[derive(Default)]
struct Crate {
    modules: BTreeSet<Module>,
    /// Names that a module re-exports: (module, name) and the module that defines it.
    shown: BTreeMap<(Module, String), Module>,
    /// Modules that name a path, with the path.
    named: Vec<(Module, Module)>,
}

/// Collects the paths that a file names.
struct Paths<'c> {
    file: Module,
    /// Depth of nested modules within the file.
    inner: usize,
    found: &'c mut Crate,
}

impl Paths<'_> {
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut at = self.file.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            // The crate of the command line has one folder, whose name the library does not use.
            "crate" | "belljar" => (at, rest) = (Module::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                rest = &path[ups..];
                for _ in 0..ups.checked_sub(self.inner)? {
                    at.pop()?;
                }
            }
            first => {
                let child: Module = at.iter().cloned().chain([first.to_owned()]).collect();
                if !self.found.modules.contains(&child) {
                    return None;
                }
            }
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    fn name(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.found.named.push((self.file.clone(), path));
        }
    }

    fn leaves(tree: &syn::UseTree, above: &[String], found: &mut Vec<(Module, String)>) {
        let with = |name: &syn::Ident| [above, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => Self::leaves(&path.tree, &with(&path.ident), found),
            syn::UseTree::Name(name) if name.ident == "self" => {
                found.push((above.to_vec(), above.last().cloned().unwrap_or_default()));
            }
            syn::UseTree::Name(name) => found.push((with(&name.ident), name.ident.to_string())),
            syn::UseTree::Rename(it) => found.push((with(&it.ident), it.rename.to_string())),
            syn::UseTree::Glob(_) => found.push((above.to_vec(), "*".to_owned())),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| Self::leaves(tree, above, found));
            }
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|it| it == "test")
            })
    })
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) && item.content.is_some() {
            self.inner += 1;
            visit::visit_item_mod(self, item);
            self.inner -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut leaves = Vec::new();
        Self::leaves(&item.tree, &[], &mut leaves);
        for (path, name) in leaves {
            let is_shown = !matches!(item.vis, syn::Visibility::Inherited);
            match self.absolute(&path) {
                Some(path) if is_shown => {
                    self.found.shown.insert((self.file.clone(), name), path);
                }
                _ => self.name(&path),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if names.len() > 1 {
            self.name(&names);
        }
        visit::visit_path(self, path);
    }
}

impl Crate {
    fn read() -> Self {
        let mut found = Self::default();
        let sources = rust_sources(&["src"]);
        let files: Vec<(Module, syn::File)> = sources
            .iter()
            .map(|path| {
                let text = std::fs::read_to_string(path).unwrap();
                let relative = path.strip_prefix(root().join("src")).unwrap();
                (module_of(relative), syn::parse_file(&text).unwrap())
            })
            .collect();
        found.modules = files.iter().map(|(module, _)| module.clone()).collect();
        let mut tests: BTreeSet<Module> = BTreeSet::new();
        for (module, file) in &files {
            for item in &file.items {
                if let syn::Item::Mod(item) = item
                    && is_test(&item.attrs)
                {
                    tests.insert([&module[..], &[item.ident.to_string()]].concat());
                }
            }
        }
        for (file, text) in &files {
            if !tests.contains(file) {
                Paths { file: file.clone(), inner: 0, found: &mut found }.visit_file(text);
            }
        }
        found
    }

    /// The module in which `path` ends.
    fn resolve(&self, path: &[String]) -> Module {
        let mut at = Module::new();
        for (index, name) in path.iter().enumerate() {
            let child: Module = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains(&child) {
                at = child;
            } else if let Some(shown) = self.shown.get(&(at.clone(), name.clone())) {
                return self.resolve(&[shown, &path[index + 1..]].concat());
            } else {
                break;
            }
        }
        at
    }

    /// For each folder, the modules that each of its modules uses.
    fn folders(&self) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
        let mut folders: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, path) in &self.named {
            let to = self.resolve(path);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            // A folder's own file is available to all its modules.
            if let (Some(user), Some(used)) = (from.get(common), to.get(common)) {
                let folder = folders.entry(from[..common].to_vec()).or_default();
                folder.entry(user.clone()).or_default().insert(used.clone());
            }
        }
        folders
    }
}

fn module_of(path: &Path) -> Module {
    let text = path.with_extension("").to_string_lossy().replace('\\', "/");
    let mut names: Module = text.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod" || name == "lib") {
        names.pop();
    }
    names
}

/// Sets of modules that reach each other.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut found, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(at) = todo.pop() {
            for next in uses.get(at).into_iter().flatten() {
                if found.insert(next.clone()) {
                    todo.push(next);
                }
            }
        }
        found
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|from| (from, reached(from))).collect();
    let in_circle = |name: &String| {
        let back = |other: &&String| reach.get(other).is_some_and(|it| it.contains(name));
        let others = reach[name].iter().filter(back).cloned().collect::<BTreeSet<_>>();
        (others.len() > 1).then_some(others)
    };
    uses.keys().filter_map(in_circle).collect()
}

#[test]
fn modules_need_each_other_only_where_a_reason_is_given() {
    let found = Crate::read();
    let mut circles_found = BTreeSet::new();
    for (folder, uses) in found.folders() {
        for circle in circles(&uses) {
            circles_found.insert((folder.join("/"), circle.into_iter().collect::<Vec<_>>()));
        }
    }
    let known: BTreeSet<(String, Vec<String>)> = KNOWN
        .iter()
        .map(|(folder, names, _)| {
            ((*folder).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
        })
        .collect();
    let unknown: Vec<_> = circles_found.difference(&known).collect();
    assert!(unknown.is_empty(), "modules that need each other: {unknown:#?}");
    let gone: Vec<_> = known.difference(&circles_found).collect();
    assert!(gone.is_empty(), "these do not need each other any more: {gone:#?}");
}
