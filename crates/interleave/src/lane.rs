//! Lanes of a mix: for each member, the position in its trace, and its live processes and threads. A lane renumbers
//! PIDs and TIDs, so members of one mix cannot collide, and can restart its trace.

use crate::{Apart, numbers::Numbers};
use mmulab_addr::{Pid, Tid};
use mmulab_trace::{Batch, Event, Item, Source, TraceError, TraceErrorKind};
use std::collections::BTreeMap;

/// Opens a member's trace again.
pub type Again = Box<dyn Fn() -> Result<Box<dyn Source>, TraceError> + Send>;

/// A member, in the middle of its trace.
pub struct Lane {
    pub source: Box<dyn Source>,
    again: Option<Again>,
    tells_code: bool,
    pub batch: Batch,
    /// The next word of the batch.
    pub at: usize,
    more: bool,
    /// What is wrong behind the batch.
    broken: Option<TraceError>,
    pids: Numbers,
    tids: Numbers,
    /// Who acts in it.
    pub actor: (Pid, Tid),
    /// Its processes, each with a thread of it.
    alive: BTreeMap<Pid, Tid>,
    /// The core that each of its threads was told to run on.
    cpus: BTreeMap<Tid, u16>,
    /// Instructions of the mix before it may have a turn.
    pub after: u64,
    /// Instructions of the mix when its trace last began.
    pub began: u64,
    /// How often it came to its end.
    pub ends: u64,
    /// Whether it has no more turns.
    pub over: bool,
}

impl Lane {
    /// Member `index`, before its first word.
    pub fn new(
        index: usize,
        apart: Apart,
        source: Box<dyn Source>,
        again: Option<Again>,
        after: u64,
    ) -> Result<Self, TraceError> {
        let mut lane = Self {
            source,
            again,
            tells_code: false,
            batch: Batch::default(),
            at: 0,
            more: true,
            broken: None,
            pids: Numbers::new(index, apart),
            tids: Numbers::new(index, apart),
            actor: (Pid(1), Tid(1)),
            alive: BTreeMap::new(),
            cpus: BTreeMap::new(),
            after,
            began: 0,
            ends: 0,
            over: false,
        };
        lane.begin()?;
        Ok(lane)
    }

    /// A trace begins with thread 1 of process 1.
    fn begin(&mut self) -> Result<(), TraceError> {
        self.actor = (self.pid(Pid(1))?, self.tid(Tid(1))?);
        Ok(())
    }

    /// Has its batches say which code runs; whether they will.
    pub fn tell_code(&mut self) -> bool {
        self.tells_code = self.source.tell_code();
        self.tells_code
    }

    /// Whether its next word, which must be read, ends the state that it begins with.
    pub fn next_resumes(&self) -> bool {
        matches!(self.batch.refs[self.at].item(), Item::Event(index) if self.batch.events[index] == Event::Resume)
    }

    /// Whether its next word, which must be read, makes another thread act.
    pub fn next_is_switch(&self) -> bool {
        let Some(Item::Event(index)) = self.batch.refs.get(self.at).map(|word| word.item()) else { return false };
        matches!(self.batch.events[index], Event::Switch { .. })
    }

    /// Whether it has a word left; reads on if it must.
    ///
    /// # Errors
    /// What is wrong with the trace, once all before it was taken.
    pub fn has_word(&mut self) -> Result<bool, TraceError> {
        while self.at == self.batch.refs.len() {
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            if !self.more {
                return Ok(false);
            }
            self.at = 0;
            match self.source.next_batch(&mut self.batch) {
                Ok(more) => self.more = more,
                Err(error) => (self.more, self.broken) = (false, Some(error)),
            }
        }
        Ok(true)
    }

    /// Its next event, as the mix tells it; none for one that it leaves out. `is_placed`: where threads run is the
    /// mix's affair.
    pub fn event(&mut self, index: usize, is_placed: bool) -> Result<Option<Event>, TraceError> {
        // Each event has one word: it may be moved.
        let mut event = std::mem::replace(&mut self.batch.events[index], Event::Tick);
        match &mut event {
            Event::Switch { pid, tid } => {
                (*pid, *tid) = (self.pid(*pid)?, self.tid(*tid)?);
                self.actor = (*pid, *tid);
            }
            Event::Fork { child, .. } => {
                *child = self.pid(*child)?;
                self.alive.insert(*child, self.actor.1);
            }
            Event::Clone { child } => *child = self.tid(*child)?,
            Event::Pin { .. } if is_placed => return Ok(None),
            // The states of all members come first, and then one of these.
            Event::Resume => return Ok(None),
            Event::Pause => return Err(self.refused("it is recorded in intervals: take one of them, by trace slice")),
            Event::Pin { tid, .. } => *tid = self.tid(*tid)?,
            Event::Exit { .. } => {
                self.alive.remove(&self.actor.0);
            }
            _ => {}
        }
        Ok(Some(event))
    }

    /// Makes its acting thread the one that acts, on `core` if that is given.
    pub fn act(&mut self, core: Option<u16>, batch: &mut Batch) {
        let (pid, tid) = self.actor;
        self.alive.insert(pid, tid);
        if let Some(cpu) = core
            && self.cpus.insert(tid, cpu) != Some(cpu)
        {
            batch.push_event(Event::Pin { tid, cpu });
        }
        batch.push_event(Event::Switch { pid, tid });
    }

    /// Has its processes end, and its trace begin anew.
    pub fn restart(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        for (pid, tid) in std::mem::take(&mut self.alive) {
            batch.push_event(Event::Switch { pid, tid });
            batch.push_event(Event::Exit { status: 0 });
        }
        let Some(again) = &self.again else {
            let what = "it cannot be opened again: it is read once".to_owned();
            return Err(TraceError::new(&self.source.info().name, "", TraceErrorKind::Request(what)));
        };
        self.source = again()?;
        if self.tells_code {
            self.source.tell_code();
        }
        self.more = true;
        self.begin()
    }

    fn pid(&mut self, own: Pid) -> Result<Pid, TraceError> {
        self.pids.of(own.0).map(Pid).ok_or_else(|| self.too_many("processes"))
    }

    fn tid(&mut self, own: Tid) -> Result<Tid, TraceError> {
        self.tids.of(own.0).map(Tid).ok_or_else(|| self.too_many("threads"))
    }

    fn too_many(&self, what: &str) -> TraceError {
        self.refused(&format!("it has more {what} than a member of a mix may have: take a part of it, or run it alone"))
    }

    fn refused(&self, why: &str) -> TraceError {
        TraceError::new(&self.source.info().name, "", TraceErrorKind::Request(why.into()))
    }
}
