//! Interleaved trace: the traces of several members, presented to the simulator as one `Source`. Members run in turns
//! whose length is given in instructions or references. A switch event marks every change of the acting member.
//! Processes and threads are renumbered, so that members never share an address space.

use crate::{
    Apart, Counted, End, MACHINES_MAX, MEMBERS_MAX, NUMBERS, PID_BITS, Schedule,
    lane::{Again, Lane},
    queues::{Queues, Turn},
};
use mmulab_trace::{Batch, Event, Item, Member, Mixed, Source, Span, TraceError, TraceErrorKind, TraceInfo, slice};
use serde_json::{Map, Value};

/// What a mix is made of.
pub struct Part {
    /// Its name, unlike all others.
    pub name: String,
    /// Its trace.
    pub source: Box<dyn Source>,
    /// The same again, for mixes that start members anew; others need none.
    pub again: Option<Again>,
    /// Instructions that the mix has run when it starts.
    pub after: u64,
    /// The core it runs on, if not the schedule decides.
    pub core: Option<u16>,
}

/// Several traces as one.
struct Mix {
    lanes: Vec<Lane>,
    /// The member whose state is told: that of a trace which was cut. All states come before the first turn.
    state_of: usize,
    queues: Queues,
    quantum: u64,
    unit: Counted,
    end: End,
    /// Whose turn it is, and what is left of it.
    turn: Option<Turn>,
    left: u64,
    /// Whether it has been told whose turn it is.
    told: bool,
    /// Who acts, as far as has been told.
    acting: Option<Turn>,
    /// Whether the last word of this turn was a fetch: what its block has more belongs to it.
    in_block: bool,
    /// Instructions so far.
    instructions: u64,
    over: bool,
    info: TraceInfo,
    /// What is said of it before any of it was read: the members' warnings follow.
    warned: usize,
}

/// `parts` in turns, under the name `name`.
///
/// Numbers distinguish processes and threads from those of other members. Member `n` (from 0) has those from
/// `n * NUMBERS` on. If each member has a machine of its own, the machine's number is above their [`PID_BITS`] bits.
///
/// # Errors
/// Nothing to mix, too much, or traces that do not go together.
pub fn mix(name: &str, parts: Vec<Part>, schedule: &Schedule) -> Result<Box<dyn Source>, TraceError> {
    let info = info(name, &parts, schedule).map_err(|what| TraceError::new(name, "", TraceErrorKind::Request(what)))?;
    let cores: Vec<Option<u16>> = parts.iter().map(|part| part.core).collect();
    let lane = |(index, part): (usize, Part)| Lane::new(index, schedule.apart, part.source, part.again, part.after);
    let whole = Mix {
        queues: Queues::new(schedule, &cores),
        lanes: parts.into_iter().enumerate().map(lane).collect::<Result<_, _>>()?,
        state_of: 0,
        quantum: schedule.quantum.max(1),
        unit: schedule.unit,
        end: schedule.end,
        turn: None,
        left: 0,
        told: false,
        acting: None,
        in_block: false,
        instructions: 0,
        over: false,
        warned: info.warnings.len(),
        info,
    };
    Ok(slice(Box::new(whole), Span { start: 0, end: schedule.instructions }))
}

fn info(name: &str, parts: &[Part], schedule: &Schedule) -> Result<TraceInfo, String> {
    let most = match schedule.apart {
        Apart::Processes => MEMBERS_MAX,
        Apart::Machines => MACHINES_MAX,
    };
    if parts.is_empty() || parts.len() > most {
        return Err(format!("{} traces: give 1 to {most}", parts.len()));
    }
    let infos: Vec<&TraceInfo> = parts.iter().map(|part| part.source.info()).collect();
    let first = infos[0];
    let tells = |i: &TraceInfo| if i.has_address_space { "tells" } else { "does not tell" };
    if let Some(odd) = infos.iter().find(|i| i.has_address_space != first.has_address_space) {
        return Err(format!(
            "{} {} what the program mapped, and {} {}: give traces of one kind",
            first.name,
            tells(first),
            odd.name,
            tells(odd)
        ));
    }
    if let Some(odd) = infos.iter().find(|i| i.misses_of != first.misses_of) {
        return Err(format!(
            "{} and {} are not both misses of one machine: give the traces that were run",
            first.name, odd.name
        ));
    }
    if let Some(odd) = infos.iter().find(|i| i.mix.as_ref().is_some_and(|m| m.members.iter().any(|m| m.vm.is_some()))) {
        return Err(format!("{} runs virtual machines, which run none: name its members themselves", odd.name));
    }
    let mut warnings = Vec::new();
    if let Some(odd) = infos.iter().find(|i| i.isa != first.isa) {
        let Some(part) = parts.iter().find(|p| p.source.info().isa != first.isa) else { unreachable!("it was found") };
        warnings.push(format!(
            "{} is of {}, and {} of {}: they run side by side here, and would on no machine",
            parts[0].name, first.isa, part.name, odd.isa
        ));
    }
    let members = parts.iter().zip(0u32..).map(|(part, index)| {
        let (vm, pids) = match schedule.apart {
            Apart::Processes => (None, [index * NUMBERS + 1, (index + 1) * NUMBERS - 1]),
            Apart::Machines => (Some(index), [1, (1 << PID_BITS) - 1]),
        };
        Member { name: part.name.clone(), trace: part.source.info().name.clone(), vm, pids }
    });
    let described: Map<String, Value> = match serde_json::to_value(schedule) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let sum = |of: fn(&TraceInfo) -> Option<u64>| {
        infos.iter().map(|i| of(i)).sum::<Option<u64>>().filter(|_| schedule.end == End::All)
    };
    let hashes: Option<Vec<&str>> = infos.iter().map(|i| i.hash.as_deref()).collect();
    // Where cores and starting points are named, they are part of what it is.
    let placed: Vec<String> = parts.iter().map(|p| format!("{}@{:?}", p.after, p.core)).collect();
    let turns = Value::Object(described.clone());
    Ok(TraceInfo {
        name: name.to_owned(),
        format: "mix".into(),
        program: infos.iter().map(|i| i.program.as_str()).collect::<Vec<_>>().join(" + "),
        args: Vec::new(),
        isa: first.isa,
        instructions: sum(|i| i.instructions),
        references: sum(|i| i.references),
        has_address_space: first.has_address_space,
        has_heap: infos.iter().all(|i| i.has_heap),
        misses_of: first.misses_of.clone(),
        // Threads are renumbered.
        warps: None,
        loads: first.loads.clone().filter(|_| infos.iter().all(|i| i.loads == first.loads)),
        skipped: infos.iter().filter_map(|i| i.skipped).reduce(u64::saturating_add),
        mix: Some(Mixed { schedule: described, members: members.collect() }),
        hash: hashes.map(|h| format!("mix {turns} {} of {}", placed.join(" "), h.join(" + "))),
        warnings,
        reshaped: Map::new(),
    })
}

impl Mix {
    /// Gives the next turn to whoever is next; false when nobody is left.
    fn pass_on(&mut self) -> bool {
        loop {
            let (lanes, now) = (&self.lanes, self.instructions);
            self.turn = self.queues.next(|member| !lanes[member].over && lanes[member].after <= now);
            if self.turn.is_some() {
                (self.left, self.told, self.in_block) = (self.quantum, false, false);
                return true;
            }
            // Those who could run have ended: the next one starts now, for there is nobody to wait for.
            if !self.start_next() {
                return false;
            }
        }
    }

    /// Starts the member that would be the next to start; false if all have started.
    fn start_next(&mut self) -> bool {
        let now = self.instructions;
        let waiting = self.lanes.iter_mut().filter(|lane| !lane.over && lane.after > now);
        match waiting.min_by_key(|lane| lane.after) {
            Some(lane) => lane.after = now,
            None => return false,
        }
        true
    }

    /// The member whose turn it is has come to its end: true if that is the end of all.
    fn end_of(&mut self, member: usize, batch: &mut Batch) -> Result<bool, TraceError> {
        self.turn = None;
        self.lanes[member].ends += 1;
        match self.end {
            End::First => return Ok(true),
            End::All => self.lanes[member].over = true,
            End::Restart if self.lanes.iter().all(|lane| lane.ends > 0) => return Ok(true),
            End::Restart => {
                self.acting = None;
                // One without instructions would never have those come that wait for some.
                if std::mem::replace(&mut self.lanes[member].began, self.instructions) == self.instructions {
                    self.start_next();
                }
                self.lanes[member].restart(batch)?;
            }
        }
        Ok(false)
    }

    /// Takes words of the member whose turn it is: references, or one control word.
    fn take(&mut self, turn: Turn, batch: &mut Batch) -> Result<(), TraceError> {
        let lane = &mut self.lanes[turn.member];
        let words = &lane.batch.refs[lane.at..];
        let room = Batch::TARGET.saturating_sub(batch.refs.len()).max(1);
        let mut taken = 0;
        for word in words.iter().take(room) {
            let ends = match self.unit {
                Counted::References => self.left == 0,
                Counted::Instructions => self.left == 0 && word.is_fetch() && word.instructions() > 0,
            };
            if word.is_control() || ends {
                break;
            }
            taken += 1;
            self.in_block = word.is_fetch();
            let instructions = u64::from(word.instructions());
            self.instructions += instructions;
            self.left = self.left.saturating_sub(match self.unit {
                Counted::References => 1,
                Counted::Instructions => instructions,
            });
        }
        if !self.told {
            // Words were taken, or a control word is next: for a turn has room for a reference at its beginning.
            self.told = true;
            let told_anyway = taken == 0 && lane.next_is_switch();
            if !told_anyway && self.acting != Some(turn) {
                lane.act(turn.core, batch);
            }
            self.acting = Some(turn);
        }
        batch.refs.extend_from_slice(&lane.batch.refs[lane.at..lane.at + taken]);
        lane.at += taken;
        if taken > 0 {
            return Ok(());
        }
        let word = lane.batch.refs[lane.at];
        match word.item() {
            Item::Event(index) => {
                lane.at += 1;
                match lane.event(index, turn.core.is_some())? {
                    Some(Event::Switch { .. }) => lane.act(turn.core, batch),
                    Some(event) => batch.push_event(event),
                    None => {}
                }
            }
            Item::Retire(count) if self.unit == Counted::References || self.left > 0 || self.in_block => {
                lane.at += 1;
                self.in_block = false;
                self.instructions = self.instructions.saturating_add(count);
                if self.unit == Counted::Instructions {
                    self.left = self.left.saturating_sub(count);
                }
                batch.refs.push(word);
            }
            // Code belongs to the fetch behind it.
            Item::Code(index) if self.left > 0 => {
                lane.at += 1;
                batch.push_code(&lane.batch.code[index]);
            }
            // The turn ends before this word.
            Item::Retire(_) | Item::Access(..) | Item::Code(_) => self.turn = None,
        }
        Ok(())
    }

    /// Keeps what is known of the members up to date.
    fn hear_warnings(&mut self) {
        let of = |lane: &Lane| lane.source.info().warnings.len();
        if self.lanes.iter().map(of).sum::<usize>() == self.info.warnings.len() - self.warned {
            return;
        }
        self.info.warnings.truncate(self.warned);
        for lane in &self.lanes {
            self.info.warnings.extend(lane.source.info().warnings.iter().cloned());
        }
    }

    /// Takes a word of the state of the next member that has one. The last is followed by [`Event::Resume`].
    fn tell_state(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let lane = &mut self.lanes[self.state_of];
        if lane.source.info().skipped.is_some() && lane.has_word()? {
            if !std::mem::replace(&mut self.told, true) {
                lane.act(None, batch);
            }
            let resumes = lane.next_resumes();
            let word = lane.batch.refs[lane.at];
            lane.at += 1;
            match word.item() {
                Item::Event(index) => match lane.event(index, false)? {
                    Some(Event::Switch { .. }) => lane.act(None, batch),
                    Some(event) => batch.push_event(event),
                    None => {}
                },
                Item::Code(index) => batch.push_code(&lane.batch.code[index]),
                Item::Access(..) | Item::Retire(_) => batch.refs.push(word),
            }
            if !resumes {
                return Ok(());
            }
        }
        (self.state_of, self.told) = (self.state_of + 1, false);
        if self.state_of == self.lanes.len() && self.info.skipped.is_some() {
            batch.push_event(Event::Resume);
        }
        Ok(())
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while !batch.is_full() {
            if self.state_of < self.lanes.len() {
                self.tell_state(batch)?;
                continue;
            }
            let Some(turn) = self.turn else {
                if self.pass_on() {
                    continue;
                }
                return Ok(false);
            };
            if self.lanes[turn.member].has_word()? {
                self.take(turn, batch)?;
            } else if self.end_of(turn.member, batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Source for Mix {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        if self.over {
            return Ok(false);
        }
        let filled = self.fill(batch);
        self.over = !matches!(filled, Ok(true));
        self.hear_warnings();
        filled
    }

    fn tell_code(&mut self) -> bool {
        self.lanes.iter_mut().fold(false, |any, lane| lane.tell_code() | any)
    }

    fn progress(&self) -> Option<f64> {
        let parts: Option<Vec<f64>> =
            self.lanes.iter().map(|l| if l.ends > 0 { Some(1.0) } else { l.source.progress() }).collect();
        parts.map(|parts| match self.end {
            End::First => parts.iter().copied().fold(0.0, f64::max),
            End::All | End::Restart => parts.iter().sum::<f64>() / parts.len() as f64,
        })
    }
}
