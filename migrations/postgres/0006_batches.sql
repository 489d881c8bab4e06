-- Held calls of one model turn are reviewed together.

alter table approvals add column batch_id text collate "C";

create index approvals_batch on approvals (batch_id, id) where batch_id is not null;
