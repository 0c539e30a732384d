//! Architectural registers of the three instruction sets, under one numbering.

/// An architectural register, by number.
///
/// | numbers | registers |
/// |---|---|
/// | 0 | none: always ready, and writing it has no effect (also the zero registers of Armv8 and RISC-V) |
/// | 1..=32 | integer |
/// | 33 | flags |
/// | 34..=65 | vector and floating point |
/// | 66..=73 | masks |
/// | 74..=81 | x87 and MMX |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reg(u8);

impl Reg {
    /// No register.
    pub const NONE: Self = Self(0);
    /// The flags.
    pub const FLAGS: Self = Self(33);
    /// How many numbers there are.
    pub const COUNT: usize = 82;

    /// Integer register `n`, below 32.
    #[inline]
    pub const fn int(n: u8) -> Self {
        assert!(n < 32);
        Self(1 + n)
    }

    /// Vector or floating-point register `n`, below 32.
    #[inline]
    pub const fn vector(n: u8) -> Self {
        assert!(n < 32);
        Self(34 + n)
    }

    /// Mask register `n`, below 8.
    #[inline]
    pub const fn mask(n: u8) -> Self {
        assert!(n < 8);
        Self(66 + n)
    }

    /// x87 or MMX register `n`, below 8.
    #[inline]
    pub const fn x87(n: u8) -> Self {
        assert!(n < 8);
        Self(74 + n)
    }

    /// Its number, below [`Reg::COUNT`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it is one at all.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether it is kept in the integer register file.
    #[inline(always)]
    pub const fn is_int(self) -> bool {
        self.0 >= 1 && self.0 <= 32
    }

    /// Whether it is kept in the vector register file.
    #[inline(always)]
    pub const fn is_vector(self) -> bool {
        self.0 >= 34
    }
}

impl std::fmt::Debug for Reg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("-"),
            n @ 1..=32 => write!(f, "i{}", n - 1),
            33 => f.write_str("flags"),
            n @ 34..=65 => write!(f, "v{}", n - 34),
            n @ 66..=73 => write!(f, "k{}", n - 66),
            n => write!(f, "st{}", n - 74),
        }
    }
}
