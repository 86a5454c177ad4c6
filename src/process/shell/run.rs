//! Runs lists, pipelines and compound commands.

use std::sync::Arc;

use super::context::{Leave, Run, Shell};
use super::deep::DeepFuture;
use super::held::Words;
use super::image::Part;
use super::state::Function;
use super::tree::{Chain, Command, Item, Kind, List, Pipeline, Word};
use crate::kernel::guest::FdAction;
use crate::kernel::process::Pid;

/// Stack of a compound command, in bytes.
const COMMAND_STACK_BYTES: usize = 5 << 10;

/// How a loop continues.
enum Next {
    Again,
    End,
}

impl Shell {
    /// Runs `list`.
    pub async fn list(&mut self, list: &[Item]) -> Run {
        let is_last = self.take_last();
        for (index, item) in list.iter().enumerate() {
            if item.background {
                self.background(&item.chain).await?;
            } else {
                self.is_last = is_last && index + 1 == list.len();
                self.chain(&item.chain).await?;
            }
        }
        Ok(())
    }

    /// Runs `list` as a condition, which `set -e` ignores.
    async fn tested(&mut self, list: &[Item]) -> Run<bool> {
        let before = std::mem::replace(&mut self.state.is_tested, true);
        let done = self.list(list).await;
        self.state.is_tested = before;
        done.map(|()| self.state.status == 0)
    }

    /// Runs `chain`.
    pub async fn chain(&mut self, chain: &Chain) -> Run {
        let before = self.state.is_tested;
        let done = self.links(chain, before).await;
        self.state.is_tested = before;
        done
    }

    async fn links(&mut self, chain: &Chain, is_tested: bool) -> Run {
        let is_last = self.take_last();
        self.state.is_tested = is_tested || !chain.rest.is_empty();
        self.is_last = is_last && chain.rest.is_empty();
        self.pipeline(&chain.first, false).await?;
        for (index, (after_success, pipeline)) in chain.rest.iter().enumerate() {
            if (self.state.status == 0) == *after_success {
                self.state.is_tested = is_tested || index + 1 < chain.rest.len();
                self.is_last = is_last && index + 1 == chain.rest.len();
                self.pipeline(pipeline, false).await?;
            }
        }
        Ok(())
    }

    /// Runs `pipeline`. If it `is_job`, all that a background process does, its last process takes the place of this one:
    /// that is the one that other shells know by `$!`.
    pub async fn pipeline(&mut self, pipeline: &Pipeline, is_job: bool) -> Run {
        self.is_last &= !pipeline.negated && pipeline.parts.len() == 1;
        // After `set -n` nothing runs.
        if self.state.options.noexec {
            return Ok(());
        }
        if !pipeline.negated {
            return self.parts(&pipeline.parts, is_job).await;
        }
        let before = std::mem::replace(&mut self.state.is_tested, true);
        let done = self.parts(&pipeline.parts, false).await;
        self.state.is_tested = before;
        done?;
        self.state.status = u8::from(self.state.status == 0);
        Ok(())
    }

    async fn parts(&mut self, parts: &[Arc<Command>], is_job: bool) -> Run {
        if let [command] = parts {
            return self.command(command).await;
        }
        self.tick().await?;
        let mut pids = Vec::with_capacity(parts.len());
        let started = self.start_parts(parts, &mut pids).await;
        if let Some(pid) = pids.last().filter(|_| is_job && started.is_ok()) {
            self.give_place_to(*pid);
        }
        let (mut last, mut failed) = (0, 0);
        for pid in pids {
            last = self.wait_for(pid).await?;
            failed = if last == 0 { failed } else { last };
        }
        started?;
        self.state.status = if self.state.options.pipefail { failed } else { last };
        self.check_errexit()
    }

    async fn start_parts(&mut self, parts: &[Arc<Command>], pids: &mut Vec<Pid>) -> Run {
        let mut input = None;
        let started = self.start_connected(parts, pids, &mut input).await;
        // After an error, the last part that was started would wait for ever for a reader.
        if let Some(input) = input {
            self.close(input);
        }
        started
    }

    /// Starts `parts`; `input` is where the next one reads.
    async fn start_connected(
        &mut self,
        parts: &[Arc<Command>],
        pids: &mut Vec<Pid>,
        input: &mut Option<u32>,
    ) -> Run {
        for (index, part) in parts.iter().enumerate() {
            let pipe = match (index + 1 < parts.len()).then(|| self.pipe()).transpose() {
                Ok(pipe) => pipe,
                Err(errno) => {
                    return self.fail(&format!("Pipe call failed: {}", errno.meaning())).await;
                }
            };
            let from_before = input.map(|from| FdAction::Inherit { from, to: 0 });
            let to_next = pipe.map(|(_, from)| FdAction::Inherit { from, to: 1 });
            let actions: Vec<FdAction> = from_before.into_iter().chain(to_next).collect();
            let started = match self.start_program_part(part, &actions).await {
                Ok(None) => self.start_part(Part::Command(part.clone()), &actions).await.map(Some),
                started => started,
            };
            if let Some(input) = input.take() {
                self.close(input);
            }
            *input = pipe.map(|(reader, writer)| {
                self.close(writer);
                reader
            });
            pids.extend(started?);
        }
        Ok(())
    }

    /// Whether what runs now is the last that this process does. What it runs in turn is not, unless it says so.
    pub fn take_last(&mut self) -> bool {
        std::mem::take(&mut self.is_last)
    }

    async fn background(&mut self, chain: &Arc<Chain>) -> Run {
        self.tick().await?;
        self.reap().await?;
        let nothing = self.open_null().await?;
        let from_nothing = [FdAction::Inherit { from: nothing, to: 0 }];
        let started = self.start_part(Part::Chain(chain.clone()), &from_nothing).await;
        self.close(nothing);
        let pid = started?;
        self.jobs.insert(pid, None);
        self.state.background = Some(pid);
        self.state.status = 0;
        Ok(())
    }

    /// Ends the shell if the last command failed and `set -e` applies.
    pub fn check_errexit(&self) -> Run {
        if self.state.options.errexit && !self.state.is_tested && self.state.status != 0 {
            return Err(Leave::Exit);
        }
        Ok(())
    }

    /// Runs `command`.
    pub async fn command(&mut self, command: &Command) -> Run {
        if let Kind::Simple(simple) = &command.kind {
            return self.simple(command, simple).await;
        }
        self.state.line = command.line;
        let _stack = self.take_memory(COMMAND_STACK_BYTES).await?;
        DeepFuture::new(self.redirected(command)).await
    }

    async fn redirected(&mut self, command: &Command) -> Run {
        if command.redirects.is_empty() {
            return self.compound(command).await;
        }
        let Some(saved) = self.redirect(&command.redirects).await? else {
            return self.check_errexit();
        };
        let done = self.compound(command).await;
        self.undo(saved);
        done
    }

    async fn compound(&mut self, command: &Command) -> Run {
        let hands_on = matches!(command.kind, Kind::Group(_) | Kind::Simple(_) | Kind::Subshell(_));
        self.is_last &= hands_on;
        match &command.kind {
            Kind::Simple(simple) => self.simple(command, simple).await,
            Kind::Group(list) => self.list(list).await,
            Kind::Subshell(list) => {
                let is_last = self.take_last();
                let pid = self.start_part(Part::Script(list.clone()), &[]).await?;
                self.state.status = self.end_with(pid, is_last).await?;
                self.check_errexit()
            }
            Kind::If { branches, otherwise } => {
                for (condition, list) in branches {
                    if self.tested(condition).await? {
                        return self.list(list).await;
                    }
                }
                if let Some(list) = otherwise {
                    return self.list(list).await;
                }
                self.state.status = 0;
                Ok(())
            }
            Kind::Loop { until, condition, body } => {
                self.state.loops += 1;
                let done = self.repeat(*until, condition, body).await;
                self.state.loops -= 1;
                done
            }
            Kind::For { name, words, body } => {
                let values = if let Some(words) = words {
                    self.fields(words).await?
                } else {
                    let words = Words::of(&self.state.parameters, self.memory());
                    self.check_memory(words).await?
                };
                self.state.loops += 1;
                let done = self.each(name, &values, body).await;
                self.state.loops -= 1;
                done
            }
            Kind::Case { subject, arms } => self.case(subject, arms).await,
            Kind::Function { name, body } => {
                let function = Function { body: body.clone(), script: self.state.script.clone() };
                self.state.functions.insert(name.clone(), function);
                self.state.status = 0;
                Ok(())
            }
        }
    }

    async fn repeat(&mut self, until: bool, condition: &List, body: &List) -> Run {
        let mut status = 0;
        loop {
            self.tick().await?;
            match self.tested(condition).await {
                Ok(holds) if holds == until => break,
                Ok(_) => {}
                Err(leave) => match after_body(Err(leave))? {
                    Next::Again => continue,
                    Next::End => return Ok(()),
                },
            }
            match after_body(self.list(body).await)? {
                Next::Again => status = self.state.status,
                Next::End => return Ok(()),
            }
        }
        self.state.status = status;
        Ok(())
    }

    async fn each(&mut self, name: &[u8], values: &[Vec<u8>], body: &List) -> Run {
        if values.is_empty() {
            self.state.status = 0;
        }
        for value in values {
            self.tick().await?;
            self.set(name, value.as_slice()).await?;
            match after_body(self.list(body).await)? {
                Next::Again => {}
                Next::End => break,
            }
        }
        Ok(())
    }

    async fn case(&mut self, subject: &Word, arms: &[(Vec<Word>, List)]) -> Run {
        let subject = self.text(subject).await?;
        for (patterns, list) in arms {
            for pattern in patterns {
                let pattern = self.field(&pattern.0).await?;
                let pattern = self.pattern(&pattern, 0..pattern.text.len()).await?;
                if self.stepwise(|steps| pattern.matches(&subject, steps))? {
                    if list.is_empty() {
                        self.state.status = 0;
                    }
                    return self.list(list).await;
                }
            }
        }
        self.state.status = 0;
        Ok(())
    }
}

/// Returns how a loop continues after its body or condition.
fn after_body(done: Run) -> Run<Next> {
    match done {
        Ok(()) | Err(Leave::Continue(0 | 1)) => Ok(Next::Again),
        Err(Leave::Break(0 | 1)) => Ok(Next::End),
        Err(Leave::Break(loops)) => Err(Leave::Break(loops - 1)),
        Err(Leave::Continue(loops)) => Err(Leave::Continue(loops - 1)),
        Err(leave) => Err(leave),
    }
}
