/// Whether the system's process `pid` still runs; one that ended and was not waited for does not.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state is the first letter after the name, which is in parentheses and may hold any.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        // Dead, though nobody waited for it yet.
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
