"""The base of all errors that people see: their text says what happened, where, and what to do.

The command lines catch this one class, print the text and exit with a code; whatever else reaches
them is a mistake of ours. Each error is defined in the module that raises it:

    DaybookError                    errors
        ControlError                client.control
            Unanswered              client.control
            TokenRefused            client.remote
            NotRunning              console.brokers
        ClientError                 client.endpoint
            AmqpClientError         client.amqp.failures
                AmqpRefused         client.amqp.failures
            EndpointError           client.endpoint
            StompError              client.stomp
                Refused             client.stomp
        ConsoleError                console.console_config
            AskerError              console.console_config
                AlreadyRunning      console.jobs.long_jobs
            Refused                 console.visits
        WrongQuestion               console.jobs.history
        MismatchError               engine.facts.mismatch
        UnknownFormat               engine.messages.content
        StoreError                  engine.queues.queue
            ContentError            engine.queues.queue
            StoreDamaged            engine.queues.queue
        AuditError                  history.audit.journal_audit
        SameBrokerError             history.brokers.journals
        LeftOutError                history.contents
        NoSuchAddress               history.exports.addresses
        CatalogsCut                 history.missing_catalogs
        NoSuchMoment                history.moments
        NotSaved                    history.replays.progress_file
        ProgressFileError           history.replays.progress_file
        NoSuchReport                history.reports.report_files
        NoSuchMessageError          history.trail
        NoAnchor                    history.verification.newest_anchor
        WorkerFailed                history.workers
        Damage                      journal.blocks.format
        UnknownVersion              journal.blocks.format
        JournalError                journal.errors
            ArchiveError            journal.errors
            Corruption              journal.errors
            DiskFull                journal.errors
            JournalFailed           journal.errors
            Locked                  journal.errors
            NewerFormat             journal.errors
            NoJournal               journal.errors
            WrongLayout             journal.errors
            SparkError              pipeline.spark.session
            BaseFault               replication.base_files
        IndexerFailed               paging.indexer.process
        IndexerStuck                paging.indexer.process
        BaseDamaged                 paging.snapshots.base
        IndexDamaged                paging.tables.checked
        IndexUnwritable             paging.tables.tables
        PublishError                pipeline.publishing
        SelectionError              pipeline.selection
            SchemaError             pipeline.schema
        SqlError                    pipeline.sql.errors
        RecoveryError               recovery.directory
        FoldError                   recovery.fold
        ForkError                   recovery.salvage.fork
        SalvageError                recovery.salvage.salvage
        ExportError                 recovery.signing.export_proof
        SigningKeyError             recovery.signing.signing_keys
        StatementError              recovery.signing.statements
        ArbiterFault                replication.arbiters.arbiter
            Refusal                 replication.arbiters.etcd_gateway
        NameTaken                   replication.claims
        NotFollowing                replication.following
        HandOverRefused             replication.handing_over
        LeadLost                    replication.leading
        LinkRefused                 replication.links
            OtherArbiter            replication.links
        RecordDamaged               replication.record
        OtherHistory                replication.replica_files
        CannotListen                replication.runner
        WireDamage                  replication.wire
        _TooLong                    server.administration.control
        TomlError                   server.config_keys.toml_source
            TomlMissing             server.config_keys.toml_source
        ConfigError                 server.configuration.config
        StartError                  server.configuring
        NotPrepared                 server.connectors.preparing
        RouterFileError             server.foreign.router.grammar
        XmlError                    server.foreign.xml_source
        StepError                   server.history.retention_rounds
        TlsError                    server.network.layers.certificates
        TooFewDescriptors           server.process.descriptors
        HandOverFailed              server.standbys.node_service
        UsersError                  server.users.users_file
        Gone                        tools.drills.clients.client
        Wrong                       tools.drills.clients.witness
        NoSuchPoint                 tools.drills.crash_points.points
        BrokerTrouble               tools.drills.scratch.broker

Must never know any room: every room may import this module.
"""


class DaybookError(Exception):
    """Something that a person has to know or to set right; the text is a sentence for them."""


def cause_of(error: BaseException) -> BaseException | None:
    """Return the error that this one was raised from, or None.

    Code that mypyc compiled ignores `from`, and has the error that was being handled as context.
    """
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def describe(error: OSError) -> str:
    """Return an error of the operating system as a sentence, with its path if known."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
