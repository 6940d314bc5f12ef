"""The base of all errors that people see: their text says what happened, where, and what to do.

The command lines catch this one class, print the text and exit with a code; whatever else reaches
them is a mistake of ours. Each error is defined in the module that raises it:

    DaybookError                    errors
        ControlError                client.control
        EndpointError               client.endpoint
        StompError                  client.stomp
            Refused                 client.stomp
        UnknownFormat               engine.content
        MisfitError                 engine.misfit
        StoreError                  engine.queues
            ContentError            engine.queues
            StoreDamaged            engine.queues
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
        Damage                      journal.format
        UnknownVersion              journal.format
        BaseDamaged                 paging.base
        IndexDamaged                paging.checked
        IndexerFailed               paging.process
        IndexerStuck                paging.process
        IndexUnwritable             paging.tables
        PublishError                pipeline.publishing
        SelectionError              pipeline.selection
            SchemaError             pipeline.schema
        SqlError                    pipeline.sql.planning
        RecoveryError               recovery.directory
        ExportError                 recovery.export_proof
        FoldError                   recovery.fold
        ForkError                   recovery.fork
        SalvageError                recovery.salvage
        SigningKeyError             recovery.signing_keys
        StatementError              recovery.statements
        ConfigError                 server.config
        StartError                  server.configuring
        TooFewDescriptors           server.descriptors
        XmlError                    server.foreign.xml_source
        TlsError                    server.layers.certificates
        StepError                   server.leaving
        TomlError                   server.toml_source
            TomlMissing             server.toml_source
        UsersError                  server.users_file
        BrokerTrouble               tools.drills.broker
        Gone                        tools.drills.clients
        NoSuchPoint                 tools.drills.points
        Wrong                       tools.drills.witness
        NoSuchMessageError          tools.trail

Must never know any room: every room may import this module.
"""


class DaybookError(Exception):
    """Something that a person has to know or to set right; the text is a sentence for them."""


def cause_of(error: BaseException) -> BaseException | None:
    """Return the error that this one was raised from, or None.

    Code that mypyc compiled ignores `from`, and has the error that was being handled as context.
    """
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)
