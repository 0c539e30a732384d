//! What follows from the list of designs in `design/mod.rs`: the enum [`Design`](super::Design), what each says of
//! itself, and the static dispatch among designs with a storage of their own.

/// `Variant = file;`, or `Variant = file::Type;` where `Type` is the design's own storage. The first is the default.
macro_rules! designs {
    ($first:ident = $first_file:ident; $($variant:ident = $file:ident $(:: $own:ident)?;)*) => {
        /// What one entry of an array may translate.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum Design {
            #[doc = concat!("See `design/", stringify!($first_file), ".rs`.")]
            #[default]
            $first,
            $(
                #[doc = concat!("See `design/", stringify!($file), ".rs`.")]
                $variant,
            )*
        }

        impl Design {
            /// Every design.
            pub const ALL: &[Self] = &[Self::$first, $(Self::$variant,)*];

            /// What it says of itself.
            pub const fn about(self) -> &'static About {
                match self {
                    Self::$first => &$first_file::ABOUT,
                    $(Self::$variant => &$file::ABOUT,)*
                }
            }
        }

        /// The entries of an array whose design has a storage of its own.
        pub enum OwnStorage {
            $($($variant($file::$own),)?)*
        }

        /// The method of whichever storage it is.
        impl Storage for OwnStorage {
            #[inline(never)]
            fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
                match self {
                    $($(Self::$variant(own) => $file::$own::hit(own, asid, vpn),)?)*
                }
            }

            fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
                match self {
                    $($(Self::$variant(own) => $file::$own::hit_size(own, asid, vpn, size),)?)*
                }
            }

            #[inline(never)]
            fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
                match self {
                    $($(Self::$variant(own) => $file::$own::read(own, slot, vpn),)?)*
                }
            }

            fn put(
                &mut self,
                asid: Asid,
                vpn: Vpn,
                input: FillInput,
                tell: impl FnMut(Change, Asid, &Entry),
            ) -> Slot {
                match self {
                    $($(Self::$variant(own) => $file::$own::put(own, asid, vpn, input, tell),)?)*
                }
            }

            fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
                match self {
                    $($(Self::$variant(own) => $file::$own::line(own, at, vpn),)?)*
                }
            }

            fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
                match self {
                    $($(Self::$variant(own) => $file::$own::set_dirty(own, asid, vpn),)?)*
                }
            }

            fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => $file::$own::drop_space(own, asid, tell),)?)*
                }
            }

            fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => $file::$own::drop_range(own, asid, first, pages, tell),)?)*
                }
            }

            fn all(&self, tell: impl FnMut(Asid, &Entry)) {
                match self {
                    $($(Self::$variant(own) => $file::$own::all(own, tell),)?)*
                }
            }

            fn traffic(&self) -> [u64; 3] {
                match self {
                    $($(Self::$variant(own) => $file::$own::traffic(own),)?)*
                }
            }

            fn coalescing(&self) -> Option<CoalescingCounts> {
                match self {
                    $($(Self::$variant(own) => $file::$own::coalescing(own),)?)*
                }
            }
        }
    };
}
