//! The list of designs, and the enum [`Design`] that follows from it: descriptions name a design, and know no more of
//! it. What else follows is in `dispatch`.

/// Hands the rows to the macro `$then`. A row is `Variant = file;`, or `Variant = file::Type;` where `Type` is the
/// design's own storage. The first is the default.
macro_rules! designs {
    ($then:ident) => {
        $then! {
            Plain = plain;
            Zen = zen;
            ColtSa = colt_sa::Entries;
            ColtFa = colt_fa::Entries;
            Clustered = clustered::Entries;
            Tps = tps::Entries;
            Mix = mix;
            ColtPlus = colt_plus;
            Skew = skew::Entries;
            CompleteSubblock = complete_subblock::Entries;
            PartialSubblock = partial_subblock::Entries;
            GapTolerant = gap_tolerant::Entries;
            Anchor = anchor::Entries;
        }
    };
}

macro_rules! design_enum {
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
        }
    };
}

designs!(design_enum);
