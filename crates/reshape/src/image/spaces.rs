//! The address spaces of a trace, and the process that runs. Fork, exec and exit create, renew and end address spaces.

use super::{desc::Window, space::Space};
use mmulab_addr::Pid;
use std::collections::BTreeMap;

/// The address spaces of a trace, and whose turn it is.
pub struct Spaces {
    /// By process; processes that share memory have the same.
    of: BTreeMap<Pid, usize>,
    /// Those nobody has any more are empty.
    spaces: Vec<Space>,
    acting: Pid,
    current: usize,
    window: Window,
}

impl Spaces {
    /// A trace begins as process 1. Files are told at `window`.
    pub fn new(window: Window) -> Self {
        let spaces = vec![Space::new(window)];
        Self { of: BTreeMap::from([(Pid(1), 0)]), spaces, acting: Pid(1), current: 0, window }
    }

    /// The acting process's.
    pub fn current(&mut self) -> &mut Space {
        &mut self.spaces[self.current]
    }

    /// `pid` acts from here on.
    pub fn switch(&mut self, pid: Pid) {
        self.acting = pid;
        self.current = match self.of.get(&pid) {
            Some(&space) => space,
            None => self.add(pid, Space::new(self.window)),
        };
    }

    /// The acting process has a child.
    pub fn fork(&mut self, child: Pid, shares_memory: bool) {
        if shares_memory {
            self.of.insert(child, self.current);
        } else {
            let copy = self.spaces[self.current].clone();
            self.add(child, copy);
        }
    }

    /// The acting process has an empty space of its own from here on.
    pub fn renew(&mut self) {
        self.leave();
        self.current = self.add(self.acting, Space::new(self.window));
    }

    /// The acting process is no more.
    pub fn exit(&mut self) {
        self.renew();
        self.of.remove(&self.acting);
    }

    fn add(&mut self, pid: Pid, space: Space) -> usize {
        let free = (0..self.spaces.len()).find(|at| *at != self.current && !self.of.values().any(|used| used == at));
        let at = free.unwrap_or(self.spaces.len());
        match free {
            Some(at) => self.spaces[at] = space,
            None => self.spaces.push(space),
        }
        self.of.insert(pid, at);
        at
    }

    fn leave(&mut self) {
        let borrowed = self.of.iter().any(|(&pid, &space)| space == self.current && pid != self.acting);
        if !borrowed {
            self.spaces[self.current] = Space::new(self.window);
        }
    }
}
