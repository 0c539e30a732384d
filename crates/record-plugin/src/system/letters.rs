//! What the guest's agent tells: who is to be recorded from when on, what each process has mapped then, and who ended.

use super::world::{Id, Process, World};
use crate::{slots, telling};
use mmulab_addr::{Prot, VirtAddr};
use mmulab_record::Message;
use mmulab_trace::{Backing, Event, MapFlags};
use mmulab_visible::visible;

/// Where the agent's letter says its text is, and how long it is, from the address that it rings with.
const TEXT_AT: u64 = 8;
const LENGTH_AT: u64 = 16;
const LONGEST: u64 = 16 << 20;
/// The exit status of a process that a signal ended, told where the program's own is wanted.
const LAST_STATUS: i32 = 255;

/// The letter at `place`, in the address space in use.
pub fn read(world: &World, place: u64) -> Option<String> {
    let at = world.ram.u64(world.root, place + TEXT_AT)?;
    let bytes = world.ram.u64(world.root, place + LENGTH_AT)?.min(LONGEST);
    let mut text = vec![0; bytes as usize];
    let got = world.ram.read(world.root, at, &mut text);
    text.truncate(got);
    String::from_utf8(text).ok()
}

/// Does what a letter asks for.
pub fn open(world: &mut World, letter: &str) {
    let (head, rest) = letter.split_once('\n').unwrap_or((letter, ""));
    let mut words = head.split(' ');
    match words.next() {
        Some("begin") => {
            let all: Vec<Reported<'_>> = Reported::all(rest).collect();
            let found: Vec<_> = all.iter().filter_map(|told| Some((told.find(world)?, told))).collect();
            world.begun = true;
            for (id, told) in found {
                begin(world, id, told, None);
            }
        }
        Some("exec") => {
            for told in Reported::all(rest) {
                if let Some(id) = told.find(world) {
                    begin(world, id, &told, Some(told.exe));
                }
            }
        }
        Some("exit") => {
            let mut number = || words.next().and_then(|w| w.parse::<i32>().ok());
            if let (Some(guest), Some(status)) = (number(), number()) {
                ended(world, guest as u32, status.min(LAST_STATUS));
            }
        }
        Some("over") => {
            let status = words.next().and_then(|w| w.parse().ok()).unwrap_or_default();
            let living: Vec<Id> = world.processes.iter().filter(|(_, p)| !p.ended).map(|(&id, _)| id).collect();
            for id in living {
                world.tell_frames(id);
            }
            telling::tell(super::world::CPU, &Message::Over { status });
        }
        Some("trouble") => {
            eprintln!("mmulab: in the guest: {}", visible(head.strip_prefix("trouble ").unwrap_or(head)))
        }
        _ => {}
    }
}

/// A process as the agent describes it.
struct Reported<'a> {
    guest: u32,
    /// A page of its own, and the frame it is in.
    page: u64,
    frame: u64,
    exe: &'a str,
    files: Vec<(i32, &'a str)>,
    maps: Vec<Map<'a>>,
}

/// A line of its /proc/PID/maps.
#[derive(Debug, PartialEq, Eq)]
struct Map<'a> {
    start: u64,
    end: u64,
    prot: Prot,
    shared: bool,
    offset: u64,
    inode: u64,
    name: &'a str,
}

/// What files that show System V shared memory are called; their inodes are the segments' numbers.
const SEGMENT: &str = "/SYSV";

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

impl<'a> Map<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?.as_bytes();
        let offset = fields.next()?;
        let inode = fields.nth(1).and_then(|field| field.parse().ok()).unwrap_or_default();
        let name = fields.next().unwrap_or_default().trim();
        let has = |at: usize, letter, right| if rights.get(at) == Some(&letter) { right } else { Prot::NONE };
        let prot = has(0, b'r', Prot::R).with(has(1, b'w', Prot::W)).with(has(2, b'x', Prot::X));
        let shared = rights.get(3) == Some(&b's');
        Some(Self { start: hex(start)?, end: hex(end)?, prot, shared, offset: hex(offset)?, inode, name })
    }

    fn is_segment(&self) -> bool {
        self.shared && self.name.starts_with(SEGMENT)
    }

    fn event(&self) -> Event {
        let is_file = self.name.starts_with('/');
        let (addr, len) = (VirtAddr::new(self.start), self.end - self.start);
        if self.name == "[heap]" {
            return Event::Brk { start: addr, end: VirtAddr::new(self.end) };
        }
        let segment = super::calls::segment(self.inode);
        let path = if self.is_segment() { &segment } else { self.name.trim_end_matches(" (deleted)") };
        Event::Mmap {
            addr,
            len,
            prot: self.prot,
            flags: MapFlags {
                shared: self.shared,
                grows_down: self.name == "[stack]",
                label: self.name.starts_with('[').then(|| self.name.into()),
                ..MapFlags::default()
            },
            backing: if is_file { Backing::File { path: path.into(), offset: self.offset } } else { Backing::Anon },
        }
    }
}

impl<'a> Reported<'a> {
    /// The processes that a letter tells of.
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        text.split("\nend\n").filter_map(Self::parse)
    }

    fn parse(text: &'a str) -> Option<Self> {
        let mut lines = text.lines();
        let mut head = lines.next()?.strip_prefix("process ")?.split(' ');
        let mut this = Self {
            guest: head.next()?.parse().ok()?,
            page: hex(head.next()?)?,
            frame: hex(head.next()?)?,
            exe: "",
            files: Vec::new(),
            maps: Vec::new(),
        };
        for line in lines {
            match line.split_once(' ')? {
                ("exe", path) => this.exe = path,
                ("fd", rest) => {
                    let (fd, path) = rest.split_once(' ')?;
                    this.files.push((fd.parse().ok()?, path));
                }
                ("map", rest) => this.maps.extend(Map::parse(rest)),
                _ => {}
            }
        }
        Some(this)
    }

    /// The process it tells of: the one whose address space has its page in its frame.
    fn find(&self, world: &mut World) -> Option<Id> {
        let known = world.processes.iter().find(|(_, p)| p.guest == Some(self.guest) && !p.ended).map(|(&id, _)| id);
        let Some(root) = world.root_with(self.page, self.frame) else {
            if known.is_none() && world.begun {
                slots::lose(&format!("process {} of the guest: its address space was not found", self.guest));
            }
            return known;
        };
        let id = known.or_else(|| world.spaces.get(&root).copied());
        let id = id.unwrap_or_else(|| world.new_process(root, Process::default()));
        world.moves_to(id, root);
        Some(id)
    }
}

/// The process is recorded from here on, with what it has mapped now; `executed`: another program than before.
fn begin(world: &mut World, id: Id, told: &Reported<'_>, executed: Option<&str>) {
    let heap = told.maps.iter().find(|map| map.name == "[heap]").map(|map| map.start);
    let Some(process) = world.processes.get_mut(&id) else { return };
    process.guest = Some(told.guest);
    process.recorded = true;
    process.executing = false;
    process.heap = heap;
    let segments = told.maps.iter().filter(|map| map.is_segment());
    process.attached = segments.map(|map| (map.start, map.end - map.start)).collect();
    process.told = super::frames::SeenFrames::default();
    process.files = told.files.iter().map(|&(fd, path)| (fd, path.to_owned())).collect();
    if !world.begun {
        return;
    }
    let mut events: Vec<Event> = executed.map(|path| Event::Exec { path: path.into() }).into_iter().collect();
    events.extend(world.kernel_events());
    // Code that the kernel maps into every program lies in its own half (vsyscall).
    events.extend(told.maps.iter().filter(|map| map.start >> 63 == 0).map(Map::event));
    super::frames::forget();
    world.number(id);
    world.emit(id, events);
}

/// A process ended.
fn ended(world: &mut World, guest: u32, status: i32) {
    let Some((&id, _)) = world.processes.iter().find(|(_, p)| p.guest == Some(guest) && !p.ended) else { return };
    if world.processes[&id].number.is_some() {
        world.emit(id, vec![Event::Exit { status }]);
    }
    let root = world.processes[&id].root;
    if let Some(process) = world.processes.get_mut(&id) {
        process.ended = true;
        process.told = super::frames::SeenFrames::default();
    }
    world.threads.retain(|_, thread| thread.process != id);
    if world.spaces.get(&root) == Some(&id) {
        world.spaces.remove(&root);
        if let Some((&owner, _)) = world.processes.iter().find(|(_, p)| p.root == root && !p.ended) {
            world.spaces.insert(root, owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_tells_is_read() {
        let text = "process 77 0x7ffc000 0x1a2\nexe /bin/x\nfd 3 /tmp/a b\n\
            map 400000-401000 r-xp 00001000 00:02 12   /bin/x\nmap 7000-9000 rw-p 00000000 00:00 0 [stack]\nend\n";
        let line = "7f00000-7f20000 rw-s 00000000 00:01 32769                      /SYSV00000000 (deleted)";
        let shared = Map::parse(line).map(|map| map.event());
        let backed = |path: &str| Backing::File { path: path.into(), offset: 0 };
        assert!(matches!(shared, Some(Event::Mmap { backing, .. }) if backing == backed("/SYSV#32769")));
        let [told] = &Reported::all(text).collect::<Vec<_>>()[..] else { panic!("one process") };
        assert_eq!((told.guest, told.page, told.frame, told.exe), (77, 0x7ff_c000, 0x1a2, "/bin/x"));
        assert_eq!(told.files, [(3, "/tmp/a b")]);
        let code = told.maps[0].event();
        let backing = Backing::File { path: "/bin/x".into(), offset: 0x1000 };
        let flags = MapFlags::default();
        let addr = VirtAddr::new(0x40_0000);
        assert_eq!(code, Event::Mmap { addr, len: 0x1000, prot: Prot::RX, flags, backing });
        assert!(matches!(told.maps[1].event(), Event::Mmap { flags, .. } if flags.grows_down));
    }
}
