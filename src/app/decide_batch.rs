//! `POST /decide/batch`: the calls of one model turn, decided in order; those that are held are reviewed together.

use super::{
    App, Caller,
    decide_call::{DecideAnswer, DecideRequest},
    error::Error,
};
use crate::domain::ids::BatchId;

impl App {
    /// Decides every call, in order: what one of them leaves behind counts for the next. Each has an answer of its own,
    /// for each is committed by itself; that one could not be decided is no reason to forget the others.
    ///
    /// # Errors
    /// When no id can be made for the batch. Nothing is decided then.
    pub async fn decide_batch(
        &self,
        caller: &Caller,
        mut calls: Vec<DecideRequest>,
    ) -> Result<Vec<Result<DecideAnswer, Error>>, Error> {
        let batch = BatchId::from_uuid(self.uuid(self.now())?);
        let mut answers = Vec::with_capacity(calls.len());
        for call in &mut calls {
            call.batch = Some(batch);
            answers.push(self.decide_call(caller, call).await);
        }
        Ok(answers)
    }
}
