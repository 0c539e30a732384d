//! Virtual machines: the host below the kernels of guests, as a part of the engine.

mod below;
mod deliver;
mod host;
mod shadow;
mod shadows;
mod systems;
mod tags;

pub(crate) use {host::Host, systems::systems};
