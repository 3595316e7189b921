// SPDX-License-Identifier: GPL-2.0

//! Entities that the GPU is shared between: clients, or groups of them.

use crate::scenario::{Between, Client};
use loga::units::Weight;

/// One entity that the GPU is shared between.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    pub(super) weight: Weight,
    /// Its clients, by number.
    pub(super) members: Vec<usize>,
    /// Number of its clients that are present.
    pub(super) present: usize,
}

/// The entity of each client.
#[derive(Clone, Debug)]
pub(super) struct Entities {
    all: Vec<Entity>,
    of: Vec<usize>,
}

impl Entities {
    pub(super) fn new(clients: &[&Client], by: Between) -> Self {
        let mut all: Vec<Entity> = Vec::new();
        let mut of = Vec::new();
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let group = client.group(by);
            let known = groups
                .iter()
                .find(|(name, _)| Some(*name) == group)
                .map(|(_, entity)| *entity);
            let entity = known.unwrap_or_else(|| {
                all.push(Entity {
                    weight: client.weight,
                    members: Vec::new(),
                    present: 0,
                });
                groups.extend(group.map(|name| (name, all.len() - 1)));
                all.len() - 1
            });
            all[entity].members.push(number);
            of.push(entity);
        }
        Self { all, of }
    }

    /// The entity of a client.
    pub(super) fn of(&self, client: usize) -> usize {
        self.of[client]
    }

    /// The entity with this number.
    pub(super) fn get(&self, entity: usize) -> &Entity {
        &self.all[entity]
    }

    /// Number of entities, present or not.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A client has come; true if it is the first of its entity.
    pub(super) fn come(&mut self, client: usize) -> bool {
        let entity = &mut self.all[self.of[client]];
        entity.present += 1;
        entity.present == 1
    }

    /// A client has gone; true if it was the last of its entity.
    pub(super) fn gone(&mut self, client: usize) -> bool {
        let entity = &mut self.all[self.of[client]];
        entity.present -= 1;
        entity.present == 0
    }

    /// Those that are present.
    pub(super) fn present(&self) -> impl Iterator<Item = (usize, &Entity)> {
        self.all
            .iter()
            .enumerate()
            .filter(|(_, entity)| entity.present > 0)
    }
}
