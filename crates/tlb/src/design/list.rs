//! The enum [`Design`], which follows from the list of designs. Descriptions name a design and need no more of it. All
//! other code from the list is in `dispatch`.

macro_rules! design_enum {
    ($first:ident = $first_file:ident; $($variant:ident = $file:ident $(:: $own:ident)?;)*) => {
        /// The pages that one entry of an array may translate.
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
